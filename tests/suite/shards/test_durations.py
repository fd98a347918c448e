from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.suite.shards.durations import read_durations

if TYPE_CHECKING:
    from pathlib import Path


def test_file_of_seconds_by_test(tmp_path: Path) -> None:
    path = tmp_path / "durations"
    path.write_text('{"a": 1, "b": 0.5}')
    read = read_durations(path, "option --durations-path")
    assert read is not None
    assert read.seconds == {"a": 1, "b": 0.5}
    path.write_text('[["b", 0.5], ["a", 1]]')
    old = read_durations(path, "option --durations-path")
    assert old == read


@pytest.mark.parametrize("text", [None, "{}", "[]"])
def test_nothing_recorded_is_nothing(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "durations"
    if text is not None:
        path.write_text(text)
    assert read_durations(path, "option --durations-path") is None


@pytest.mark.parametrize(
    ("contents", "why"),
    [
        (
            b"{",
            "it is no JSON (Expecting property name enclosed in double quotes: line 1 column 2 "
            "(char 1))",
        ),
        (b"", "it is no JSON (Expecting value: line 1 column 1 (char 0))"),
        (b"\xff", "it is not text"),
        (b"3", "it does not hold seconds by the ids of tests"),
        (b"[1]", "it does not hold seconds by the ids of tests"),
        (b'{"a": "1"}', "it says that a took '1' seconds"),
        (b'{"a": -1}', "it says that a took -1 seconds"),
        (b'{"a": NaN}', "it says that a took nan seconds"),
        (b'{"a": true}', "it says that a took True seconds"),
        (b'{"a": null}', "it says that a took None seconds"),
        (None, "it cannot be read (Is a directory)"),
    ],
)
def test_file_of_something_else_is_refused(
    tmp_path: Path, contents: bytes | None, why: str
) -> None:
    path = tmp_path / "durations"
    if contents is None:
        path.mkdir()
    else:
        path.write_bytes(contents)
    with pytest.raises(InvalidArgument) as caught:
        read_durations(path, "option --durations-path")
    assert str(caught.value) == (
        f"durations_path={str(path)!r} (from option --durations-path) is not valid: {why}; use a "
        "file that pytest-split's --store-durations wrote, or remove it"
    )
