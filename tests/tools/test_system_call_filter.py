from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.simulator.runtimes.processes import system_calls
from tools import apparmor_profile, docker_profile, restricted_pod, system_call_filter
from tools.system_call_filter import SystemCallFilter, open_folders

if TYPE_CHECKING:
    from pathlib import Path

_LONGEST_JUMP = 255


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("launcher", [apparmor_profile, docker_profile, restricted_pod])
def test_jumps_of_a_program_stay_in_it(machine: str, launcher: object) -> None:
    found: SystemCallFilter = launcher._FILTER  # type: ignore[attr-defined] # of each launcher
    program = found._list_instructions(system_call_filter._PROCESSORS[machine])
    assert program[-1] == system_call_filter._ALLOW
    for place, (code, if_true, if_false, _) in enumerate(program):
        if code not in (system_call_filter._LOAD, system_call_filter._RETURN):
            assert max(if_true, if_false) <= min(_LONGEST_JUMP, len(program) - place - 2)


def test_a_call_that_the_processor_has_not_is_left_out() -> None:
    lengths = {
        len(SystemCallFilter(refused=("iopl",))._list_instructions(processor))
        for processor in system_call_filter._PROCESSORS.values()
    }
    assert len(lengths) == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="folders of root")
@pytest.mark.skipif(sys.platform != "linux", reason="mounts of Linux")
def test_a_closed_folder_that_cannot_be_covered_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(_flags: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    closed = tmp_path / "closed"
    (closed / "python").mkdir(parents=True)
    closed.chmod(0o700)
    for name in ("prefix", "base_prefix"):
        monkeypatch.setattr(sys, name, str(closed / "python"))
    # Folders of tests may be root's own as well.
    folders = (*reversed(closed.parents), closed)
    first = next(folder for folder in folders if not folder.stat().st_mode & stat.S_IXOTH)
    monkeypatch.chdir("/")
    monkeypatch.setattr(system_calls, "unshare", refuse)
    with pytest.raises(OSError, match="may not enter") as caught:
        open_folders(1000)
    assert str(caught.value) == (
        f"user 1000 may not enter {first}, and a cover cannot be mounted: Operation not permitted"
    )
