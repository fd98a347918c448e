"""Calls by which intercepted programs change their user, without the right to trace all."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.simulator.runtimes.processes.intercepted import users
from pytest_kwait.simulator.runtimes.processes.intercepted.calls import Continue, Failure, Result
from pytest_kwait.simulator.runtimes.processes.intercepted.seccomp import build_filter
from pytest_kwait.simulator.runtimes.processes.intercepted.users import (
    Ids,
    SetUserCalls,
    as_user_of,
    find_next_ids,
    read_process_link,
)
from tests.simulator.runtimes.processes.intercepted.memory import FakeMemory, make_call
from tests.simulator.runtimes.processes.intercepted.test_seccomp import (
    ALLOWED,
    NOTIFIED,
    PROCESSORS,
    decide,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.runtimes.processes.intercepted.system_calls import Processor

_KEPT = (1 << 64) - 1
_BEFORE = Ids(1, 2, 3)


@pytest.mark.parametrize(
    ("name", "arguments", "after"),
    [
        ("setuid", (7,), (1, 7, 3)),
        ("setgid", (7,), (1, 7, 3)),
        ("setreuid", (_KEPT, _KEPT), (1, 2, 3)),
        ("setreuid", (_KEPT, 1), (1, 1, 3)),
        ("setreuid", (_KEPT, 7), (1, 7, 7)),
        ("setregid", (7, _KEPT), (7, 2, 2)),
        ("setreuid", (7, 8), (7, 8, 8)),
        ("setresuid", (_KEPT, 7, _KEPT), (1, 7, 3)),
        ("setresgid", (7, 8, 9), (7, 8, 9)),
        ("setfsuid", (7,), (1, 2, 3)),
    ],
)
def test_ids_after_a_call(
    name: str, arguments: tuple[int, ...], after: tuple[int, int, int]
) -> None:
    padded = (*arguments, *[0] * 6)[:6]
    assert find_next_ids(name, padded, _BEFORE) == after


def test_all_ids_are_set_with_the_capability() -> None:
    assert find_next_ids("setuid", (7, *[0] * 5), _BEFORE, has_capability=True) == (7, 7, 7)


def test_program_stays_dumpable() -> None:
    answers, memory = SetUserCalls().answers, FakeMemory()
    assert answers["setfsuid"](make_call("setfsuid", memory, 7)) == Continue(
        followed_by=(("prctl", (4, 1)),)
    )
    assert answers["prctl"](make_call("prctl", memory, 4, 0)) == Result(0)


def test_program_still_ends_with_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getpid", os.getppid)
    call = make_call("setfsgid", FakeMemory(), 7)._replace(thread=int(os.readlink("/proc/self")))
    assert SetUserCalls().answers["setfsgid"](call) == Continue(
        followed_by=(("prctl", (4, 1)), ("prctl", (1, 9)))
    )


@pytest.mark.parametrize("name", ["setresuid", "setresgid"])
def test_part_of_a_user_or_group_is_refused(name: str) -> None:
    call = make_call(name, FakeMemory(), -1, 7, 8)
    assert SetUserCalls().answers[name](call) == Failure(errno.EPERM)


@PROCESSORS
def test_only_a_program_that_hides_is_notified(processor: Processor) -> None:
    program = build_filter(processor, SetUserCalls.CAUGHT, ())

    def decide_about(option: int, value: int) -> int:
        number = processor.numbers["prctl"]
        return decide(program, processor.architecture, number, option, value)

    assert decide_about(4, 0) == NOTIFIED
    assert decide_about(4, 1) == decide_about(15, 0) == ALLOWED
    assert decide(program, processor.architecture, processor.numbers["setuid"], 0) == NOTIFIED


@pytest.mark.parametrize("is_taken", [False, True])
def test_process_of_the_own_user_is_looked_into(
    monkeypatch: pytest.MonkeyPatch, *, is_taken: bool
) -> None:
    monkeypatch.setattr(users, "takes_users", lambda: is_taken)
    thread = os.getpid()
    with as_user_of(thread):
        assert os.getresuid()[1] == os.geteuid()
    link = read_process_link(thread, b"/proc/%d/cwd" % thread)
    assert link == os.fsencode(os.getcwd())


def test_user_of_a_process_is_taken_and_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[object, ...]] = []

    def note(name: str) -> object:
        return lambda *ids: made.append((name, *ids))

    monkeypatch.setattr(users, "takes_users", lambda: True)
    monkeypatch.setattr(users, "use_permitted_capabilities", note("capabilities"))
    monkeypatch.setattr(os, "stat", lambda _: os.stat_result((0, 0, 0, 0, 7, 8, 0, 0, 0, 0)))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "getegid", lambda: 0)
    monkeypatch.setattr(os, "setresuid", note("user"))
    monkeypatch.setattr(os, "setresgid", note("group"))
    with pytest.raises(OSError, match="gone"), as_user_of(1):
        raise OSError("gone")
    assert made == [
        ("group", 8, 8, 0),
        ("user", 7, 7, 0),
        ("capabilities",),
        ("user", 0, 0, 0),
        ("group", 0, 0, 0),
    ]
