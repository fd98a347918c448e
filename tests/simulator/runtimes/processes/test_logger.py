from __future__ import annotations

import pytest

from pytest_kwait.simulator.runtimes.processes.logger import OutputReader, pack_output

_SENT = b"".join(
    [pack_output(0, b"a"), pack_output(0, b"b"), pack_output(1, b"c" * 70_000), pack_output(0, b"")]
)


def test_writes_of_one_stream_are_joined() -> None:
    found = list(OutputReader().feed(_SENT))
    assert found == [(0, b"ab"), (1, b"c" * 70_000)]


@pytest.mark.parametrize("size", [1, 3, 5, 4096, len(_SENT)])
def test_output_arrives_in_pieces(size: int) -> None:
    """Wherever the connection cuts it."""
    reader = OutputReader()
    pieces = [_SENT[start : start + size] for start in range(0, len(_SENT), size)]
    found = [output for piece in pieces for output in reader.feed(piece)]
    assert b"".join(data for stream, data in found if stream == 0) == b"ab"
    assert b"".join(data for stream, data in found if stream == 1) == b"c" * 70_000
    assert [stream for stream, _ in found] == sorted(stream for stream, _ in found)
