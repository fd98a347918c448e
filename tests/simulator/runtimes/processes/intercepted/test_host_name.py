"""The host name that intercepted programs see."""

from __future__ import annotations

import os

from pytest_kwait.simulator.runtimes.processes.intercepted.calls import Failure, Result
from pytest_kwait.simulator.runtimes.processes.intercepted.host_name import HostNameCalls
from tests.simulator.runtimes.processes.intercepted.memory import BASE, FakeMemory, make_call


def _read_names(memory: FakeMemory) -> list[str]:
    fields = [bytes(memory.data[start : start + 65]) for start in range(0, 6 * 65, 65)]
    return [field.rstrip(b"\0").decode() for field in fields]


def test_pod_has_its_own_name_on_the_machine() -> None:
    memory = FakeMemory(bytes(6 * 65))
    calls = HostNameCalls("web-0", "shop")
    assert calls.answers["uname"](make_call("uname", memory, BASE)) == Result(0)
    own = os.uname()
    assert _read_names(memory) == [
        own.sysname, "web-0", own.release, own.version, own.machine, "shop",
    ]  # fmt: skip


def test_long_name_is_cut() -> None:
    memory = FakeMemory(bytes(6 * 65))
    HostNameCalls("w" * 70, "").answers["uname"](make_call("uname", memory, BASE))
    assert _read_names(memory)[1] == "w" * 64
    assert _read_names(memory)[5] == "(none)"


def test_names_cannot_be_changed() -> None:
    calls = HostNameCalls("web-0", "")
    for name in ("sethostname", "setdomainname"):
        assert calls.answers[name](make_call(name, FakeMemory(), BASE, 3)) == Failure(1)
