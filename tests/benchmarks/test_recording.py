from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.recording import _CONFTEST

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are read from /proc")
def test_processes_that_end_meanwhile_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def list_processes(folder: Path, pattern: str) -> Iterator[Path]:
        yield folder / "0"  # no process has this number
        yield folder / str(os.getpid())

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Path, "glob", list_processes)
    module: dict[str, Any] = {}
    exec(_CONFTEST, module)  # as pytest runs it
    module["times"] += [1.0, 3.5]
    module["pytest_sessionfinish"](None)
    duration, megabytes, _ = map(float, (tmp_path / "facts").read_text().split())
    assert duration == 2.5
    assert megabytes > 1
