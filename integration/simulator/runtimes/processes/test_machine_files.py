"""No container changes the machine, whatever its security context allows.

The programs open files of the kernel for writing and close them: nothing is written.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from integration.simulator.runtimes.processes.programs import PYTHON, Programs, Scenario
from pytest_kwait.simulator.runtimes.processes.container_init import (
    Environment,
    check_sysctl,
    select_capabilities,
)
from pytest_kwait.simulator.runtimes.processes.root_filesystem import RootError
from pytest_kwait.simulator.runtimes.processes.system_calls import CAPABILITIES

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[[Scenario], None]

_PROGRAM = Path(__file__).with_name("writable_files.py").read_text(encoding="utf-8")
_CONTEXTS: dict[str, dict[str, Any]] = {
    "default": {},
    "privileged": {"privileged": True},
    "ALL": {"capabilities_add": ("ALL",)},
}


@pytest.mark.parametrize("name", [*_CONTEXTS, *CAPABILITIES])
def test_no_file_of_the_machine_opens_for_writing(run_isolated: Run, name: str) -> None:
    async def scenario(programs: Programs) -> None:
        sandbox = await programs.create_sandbox()
        given = _CONTEXTS.get(name, {"capabilities_add": (name,)})
        arguments = ["every"] if name in _CONTEXTS else []
        program = programs.start(sandbox, PYTHON, "-I", "-c", _PROGRAM, *arguments, **given)
        assert (await program.wait()).code == 0, program.stderr
        assert program.stdout == "walked\n"

    run_isolated(scenario)


@pytest.mark.parametrize("config", [{"share_pids": True}, {"host_network": True}])
def test_no_file_opens_in_shared_namespaces(run_isolated: Run, config: dict[str, bool]) -> None:
    async def scenario(programs: Programs) -> None:
        sandbox = await programs.create_sandbox(**config)
        started = [
            programs.start(sandbox, PYTHON, "-I", "-c", _PROGRAM, privileged=True),
            programs.start(sandbox, "sleep", "1000", privileged=True),
        ]
        assert (await started[0].wait()).code == 0
        assert await started[1].started is None
        session = started[1].exec(PYTHON, "-I", "-c", _PROGRAM)
        assert (await session.wait()).code == 0
        assert [started[0].stdout, session.stdout] == ["walked\n"] * 2

    run_isolated(scenario)


@pytest.mark.parametrize(
    "name", ["kernel.core_pattern", "vm.max_map_count", "fs.file-max", "kernel/core_pattern", ""]
)
def test_a_sysctl_of_the_machine_is_refused(name: str) -> None:
    """By a function that writes nothing."""
    with pytest.raises(RootError, match="is not in a separate kernel namespace"):
        check_sysctl(name)


@pytest.mark.parametrize("name", ["kernel.sem", "kernel.shmmax", "fs.mqueue.msg_max", "net.a"])
def test_a_sysctl_of_the_pod_is_allowed(name: str) -> None:
    check_sysctl(name)


_OPEN_SETTING = """
import os
try:
    os.close(os.open("/proc/sys/net/ipv4/ip_forward", os.O_WRONLY))
    print("opened")
except OSError as error:
    print(error.strerror)
"""


@pytest.mark.parametrize("is_privileged", [True, False])
def test_network_settings_of_a_pod_are_its_own(run_isolated: Run, is_privileged: bool) -> None:
    async def scenario(programs: Programs) -> None:
        sandbox = await programs.create_sandbox()
        program = programs.start(sandbox, PYTHON, "-c", _OPEN_SETTING, privileged=is_privileged)
        assert (await program.wait()).code == 0
        assert (program.stdout == "opened\n") is is_privileged

    run_isolated(scenario)


def test_capabilities_without_a_user_namespace() -> None:
    """Those with which the machine's root could change the machine are dropped."""
    environment = Environment("", "", "", True, False, True, True)
    config = {"privileged": True, "capabilities_add": [], "capabilities_drop": []}
    kept = select_capabilities(environment, config)
    assert not kept & {"SYS_ADMIN", "MKNOD", "SYS_RAWIO", "SYS_MODULE", "DAC_READ_SEARCH", "BPF"}
    assert {"CHOWN", "SETUID", "NET_BIND_SERVICE"} <= kept
    every = select_capabilities(environment._replace(has_user_namespace=True), config)
    assert every == frozenset(CAPABILITIES)
