from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.runtimes.processes.intercepted.shared_file import (
    SharedFileReader,
    SharedFileWriter,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_content_is_read_once_for_each_write(tmp_path: Path) -> None:
    path = str(tmp_path / "shared")
    writer, reader = SharedFileWriter(path), SharedFileReader(path)
    assert reader.read_changed() is None
    for number in range(5):
        writer.write([number])
        assert reader.read_changed() == [number]
        assert reader.read_changed() is None
    assert [entry.name for entry in tmp_path.iterdir()] == ["shared"]


def test_file_is_its_owner_s(tmp_path: Path) -> None:
    SharedFileWriter(str(tmp_path / "shared")).write([])
    assert (tmp_path / "shared").stat().st_mode & 0o777 == 0o600
