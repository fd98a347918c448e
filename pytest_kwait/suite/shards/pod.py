"""The program of a shard's pod: runs pytest, writes results to the log.

Its arguments are pytest's. Its exit status is 0 once the results are written: with another
one the cluster would run the shard again, and failed tests are no error of the cluster.

A pod's log outlives it, and is readable by every user with access to pods. The files
are at its end, compressed, with a checksum: incomplete results are rejected and reported.
"""

from __future__ import annotations

import base64
import hashlib
import signal
import subprocess
import sys
import tempfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import FrameType

JUNIT = "junit.xml"
REPORT = "report.json"
"""The names of a shard's result files."""

_HEADER = "kwait-shard-results"
_TRAILER = "kwait-shard-results-end"
_LINE_WIDTH = 4000
_MAX_SIZE = 256_000_000
"""Maximum bytes of all files; a log with more is rejected."""
_results_decoder = msgspec.msgpack.Decoder(tuple[int, dict[str, bytes]])


@dataclass(frozen=True, slots=True)
class ShardResults:
    """The results of one shard.

    Args:
        status: pytest's exit status.
        files: the contents by name, without files that pytest did not write.
        log: the rest of its pod's log.
    """

    status: int
    files: Mapping[str, bytes] = field(default_factory=dict)
    log: str = ""


def pack_results(status: int, files: Mapping[str, bytes]) -> str:
    """Encode results as lines for the end of a log.

    Args:
        status: pytest's exit status.
        files: the contents by name.
    """
    data = zlib.compress(msgspec.msgpack.encode((status, dict(files))))
    text = base64.b64encode(data).decode()
    lines = [text[at : at + _LINE_WIDTH] for at in range(0, len(text), _LINE_WIDTH)]
    return "\n".join([f"{_HEADER} {hashlib.sha256(data).hexdigest()}", *lines, _TRAILER, ""])


def unpack_results(log: str) -> ShardResults | None:
    """Decode the results at the end of a log; None if missing or incomplete.

    Args:
        log: the pod's log.
    """
    before, separator, rest = log.rpartition(_HEADER + " ")
    # If a test's output has no final newline, the mark follows on the same line.
    lines = rest.splitlines()
    if not separator or _TRAILER not in lines:
        return None
    try:
        data = base64.b64decode("".join(lines[1 : lines.index(_TRAILER)]), validate=True)
        if hashlib.sha256(data).hexdigest() != lines[0]:
            return None
        content = zlib.decompressobj().decompress(data, _MAX_SIZE)
        status, files = _results_decoder.decode(content)
    except (ValueError, zlib.error, msgspec.DecodeError):
        return None
    return ShardResults(status, files, before)


def main(argv: Sequence[str] | None = None) -> int:
    """Run pytest and return 0.

    Args:
        argv: pytest's arguments; those of the process by default.
    """
    arguments = sys.argv[1:] if argv is None else argv
    # A background shell ignores SIGINT, and its children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="kwait-shard-") as folder:
        made = [Path(folder) / JUNIT, Path(folder) / REPORT]
        options = [f"--junitxml={made[0]}", f"--kwait-report={made[1]}"]
        process = subprocess.Popen(  # noqa: S603 - whoever gives the arguments runs the suite
            [sys.executable, "-m", "pytest", *arguments, *options]
        )

        def interrupt(_number: int, _frame: FrameType | None) -> None:
            # On pod deletion: pytest tears down fixtures only on SIGINT.
            process.send_signal(signal.SIGINT)

        before = signal.signal(signal.SIGTERM, interrupt)
        try:
            status = process.wait()
        finally:
            signal.signal(signal.SIGTERM, before)
        files = {path.name: path.read_bytes() for path in made if path.exists()}
    sys.stdout.write(pack_results(status, files))
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
