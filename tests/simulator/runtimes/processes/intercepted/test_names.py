"""The names of its pod and its user that an intercepted program sees."""

from __future__ import annotations

import errno
import os
import struct

import pytest

from pytest_kwait.simulator.runtimes.processes.intercepted.calls import Failure, Result
from pytest_kwait.simulator.runtimes.processes.intercepted.names import HostNameCalls, UserCalls
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


def test_user_is_shown_as_asked_for() -> None:
    answers = UserCalls(1000, (2000, 3000)).answers
    memory = FakeMemory(bytes(64))
    for name, number in (("getuid", 1000), ("geteuid", 1000), ("getgid", 2000), ("getegid", 2000)):
        assert answers[name](make_call(name, memory)) == Result(number)
    for name, number in (("getresuid", 1000), ("getresgid", 2000)):
        assert answers[name](make_call(name, memory, BASE, BASE + 4, BASE + 8)) == Result(0)
        assert struct.unpack("=3I", memory.read(BASE, 12)) == (number,) * 3


def test_groups_are_shown_as_asked_for() -> None:
    answers = UserCalls(1000, (2000, 3000)).answers
    memory = FakeMemory(bytes(64))
    assert answers["getgroups"](make_call("getgroups", memory, 0, 0)) == Result(2)
    assert answers["getgroups"](make_call("getgroups", memory, 1, BASE)) == Failure(errno.EINVAL)
    assert answers["getgroups"](make_call("getgroups", memory, 8, BASE)) == Result(2)
    assert struct.unpack("=2I", memory.read(BASE, 8)) == (2000, 3000)
    assert answers["setgroups"](make_call("setgroups", memory, 0, 0)) == Failure(errno.EPERM)


@pytest.mark.parametrize(
    ("name", "ids"), [("setuid", (1000,)), ("setreuid", (-1, 1000)), ("setresgid", (-1, 2000, -1))]
)
def test_own_id_may_be_set(name: str, ids: tuple[int, ...]) -> None:
    answers = UserCalls(1000, (2000,)).answers
    assert answers[name](make_call(name, FakeMemory(), *ids)) == Result(0)
    other = (*ids[:-1], 7)
    assert answers[name](make_call(name, FakeMemory(), *other)) == Failure(errno.EINVAL)
