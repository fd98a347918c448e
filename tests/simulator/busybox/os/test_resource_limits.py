"""Hostile scripts: limits of CPU, memory, processes, files and logs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.busybox.os import memory
from pytest_kwait.simulator.busybox.os.machine import Machine
from pytest_kwait.simulator.busybox.os.syscalls import Await, ComputeStep, Sleep
from pytest_kwait.simulator.busybox.programs import shellutils
from pytest_kwait.simulator.kubelet.logs import ClusterLogs
from tests.simulator.manual_clock import ManualClock
from tests.simulator.runtimes.interpreted.container_harness import ContainerHarness, take_output

if TYPE_CHECKING:
    from pytest_kwait.simulator.busybox.os.syscalls import Process, ProcessContext

TOO_DEEP = b"sh: syntax error: nested more than 60 levels deep\n"


@pytest.mark.parametrize(
    "script",
    [
        "while true; do :; done",
        "while true; do echo x; done",
        "yes",
        "yes | cat > /dev/null",
        "cat /dev/zero > /dev/null",
    ],
)
def test_an_endless_loop_yields(script: str) -> None:
    harness = ContainerHarness("sh", "-c", script)
    harness.clock.advance(0.3)
    assert harness.container.running
    # Others still run, and the log is limited.
    harness.container.kill()
    assert harness.container.status.exit_code == 137
    assert len(harness.log) < 200_000


def test_a_loop_does_not_starve_other_processes() -> None:
    harness = ContainerHarness("sh", "-c", "while :; do :; done")
    harness.clock.advance(0.2)
    session = harness.run("sh", "-c", "sleep 0.2; echo done")
    harness.clock.advance(0.6)
    assert take_output(session)[1] == b"done\n"


@pytest.mark.parametrize(
    "script",
    [
        "x=x; while :; do x=$x$x; done",
        "tail /dev/zero",
        "x=$(cat /dev/zero); echo no",
        "x=$(yes); echo no",
        "cat /dev/zero | sort",
        "dd if=/dev/zero of=/dev/null bs=1G count=1",
        'set -- a; while :; do set -- "$@" "$@"; done',
        'x="a b c d"; while :; do x="$x $x"; set -- $x; done',
        'f() { f "$@" "$@"; }; f a b c',
        "for i in $(seq 100000); do :; done",
        "awk 'BEGIN{f=\"%65000d\"; while(length(f)<99999) f=f f; printf f}'",
        "awk 'BEGIN{x=\"aaaa\"; while(1) gsub(/a/, x, x)}'",
        "awk 'BEGIN{while(1) a[i++]}'",
        "awk 'BEGIN{OFS=1; while(1) {OFS=OFS OFS; $99=1}}'",
        "x=aaaa; while :; do x=${x//a/$x}; done",
        "x=aaaa; while :; do x=$(echo $x | sed s/a/$x/g); done",
        "i=0; while :; do i=$((i+1)); eval v$i=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx$i; done",
    ],
)
def test_a_process_over_the_memory_limit_is_killed(script: str) -> None:
    harness = ContainerHarness("sh", "-c", script, memory=1 << 20)
    harness.clock.advance(60)
    assert harness.container.status.exit_code == 137
    assert harness.container.status.reason == "OOMKilled"


def test_memory_without_a_limit_is_bounded_by_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_MAX_MEMORY", 2 << 20)
    harness = ContainerHarness("sh", "-c", "tail /dev/zero")
    harness.clock.advance(60)
    assert harness.container.status.reason == "OOMKilled"


def test_a_process_below_the_memory_limit_survives() -> None:
    turn = "x=$(head -c 100000 /dev/zero | tr '\\0' x); i=$((i+1))"
    script = f"i=0; while [ $i -lt 50 ]; do {turn}; done"
    harness = ContainerHarness("sh", "-c", script, memory=1 << 20)
    harness.clock.advance(60)
    assert harness.container.status.exit_code == 0


@pytest.mark.parametrize(
    ("script", "code", "err"),
    [
        ("f() { f; }; f", 139, b""),
        ("f() { echo $(f); }; f", 139, b""),
        ("echo 'sh /s' > /s; sh /s", 139, b""),
        ("echo " + "$(" * 100 + ")" * 100, 2, TOO_DEEP),
        ("(" * 100 + "true" + ")" * 100, 2, TOO_DEEP),
        ("cat /dev/zero > /f", 1, b"cat: write error: No space left on device\n"),
        ("echo x > /dev/full", 1, b"echo: write error: No space left on device\n"),
    ],
)
def test_recursion_and_sizes_are_limited(script: str, code: int, err: bytes) -> None:
    harness = ContainerHarness()
    session = harness.run("sh", "-c", script)
    harness.clock.advance(60)
    assert session.output.code == code
    assert take_output(session)[2] == err


def test_the_number_of_processes_is_limited() -> None:
    harness = ContainerHarness()
    session = harness.run("sh", "-c", "i=0; while :; do sleep 99 & done")
    harness.clock.advance(60)
    assert session.output.code == 2
    assert take_output(session)[2] == b"sh: can't fork: Resource temporarily unavailable\n"


@pytest.mark.parametrize(
    ("script", "code", "err"),
    [
        (":(){ :|:& };:", 2, b"sh: syntax error: bad function name"),
        ("f() { f & f; }; f", 2, b"sh: can't fork: Resource temporarily unavailable"),
    ],
)
def test_a_fork_bomb_ends_only_itself(script: str, code: int, err: bytes) -> None:
    bomb, other = (
        ContainerHarness("sh", "-c", script),
        ContainerHarness("sh", "-c", "sleep 1; echo done; sleep 99"),
    )
    for harness in (bomb, other):
        harness.clock.advance(60)
    assert bomb.container.status.exit_code == code
    assert {line for _, line in bomb.log} == {err + b"\n"}
    assert [line for _, line in other.log] == [b"done\n"]


@pytest.mark.parametrize(
    "script",
    [
        "while kill -0 $$; do :; done",
        "until false; do (true); done",
        "while :; do x=$(echo a | cat); done",
        "while :; do true & done",
    ],
)
def test_an_endless_loop_of_processes_yields_and_leaks_no_memory(script: str) -> None:
    harness = ContainerHarness("sh", "-c", script, memory=1 << 20)
    session = harness.run("sh", "-c", "sleep 0.1; echo done")
    harness.clock.advance(0.5)
    assert take_output(session)[1] == b"done\n"
    assert harness.container.running
    assert len(harness.log) == 0


def test_a_process_killed_before_it_ran_holds_no_memory() -> None:
    turn = "i=$((i+1)); sleep 99 & kill $!; wait"
    script = f"i=0; while [ $i -lt 400 ]; do {turn}; done"
    harness = ContainerHarness("sh", "-c", script, memory=64 << 10)
    harness.clock.advance(60)
    assert harness.container.status.exit_code == 0


def test_a_huge_log_keeps_its_last_10_mebibytes() -> None:
    harness = ContainerHarness("sh", "-c", "seq 200000")
    while harness.container.running:
        harness.clock.advance(60)
    lines = [line for _, line in harness.log]
    assert harness.container.status.exit_code == 0
    assert lines[-1] == b"200000\n"
    assert lines == [b"%d\n" % number for number in range(200_001 - len(lines), 200_001)]
    assert sum(map(len, lines)) <= 10 << 20
    assert len(lines) > 50_000


def test_busy_containers_do_not_starve_others() -> None:
    clock = ManualClock()
    machine = Machine(clock)
    hogs = [
        ContainerHarness("sh", "-c", "while :; do :; done", clock=clock, machine=machine)
        for _ in range(20)
    ]
    clock.advance(0.2)
    session = ContainerHarness("sleep", "99", clock=clock, machine=machine).run(
        "sh", "-c", "sleep 0.2; echo done"
    )
    clock.advance(0.6)
    assert take_output(session)[1] == b"done\n"
    assert all(harness.container.running for harness in hogs)


def test_memory_hogs_are_killed_before_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "_MAX_ALL_MEMORY", 2 << 20)
    clock = ManualClock()
    machine = Machine(clock)
    small = ContainerHarness(
        "sh",
        "-c",
        "x=$(seq 1000); sleep 1; echo $x | wc -w; sleep 999",
        clock=clock,
        machine=machine,
    )
    # Each stays below the limit of one container.
    fill = "x=$(head -c 500000 /dev/zero | tr '\\0' x); sleep 999"
    hogs = [ContainerHarness("sh", "-c", fill, clock=clock, machine=machine) for _ in range(8)]
    clock.advance(60)
    ended = [harness.container.status.reason for harness in hogs if not harness.container.running]
    assert 0 < len(ended) < len(hogs)
    assert set(ended) == {"OOMKilled"}
    assert machine.memory.held <= 2 << 20
    assert [line for _, line in small.log] == [b"1000\n"]
    assert small.container.running
    for harness in [*hogs, small]:
        harness.container.kill()
    assert machine.memory.held == 0


def test_files_of_all_containers_are_limited_but_small_ones_are_accepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "_MAX_ALL_FILES", 8 << 20)
    clock = ManualClock()
    machine = Machine(clock)
    script = "head -c 2000000 /dev/zero > /f; sleep 999"
    hogs = [ContainerHarness("sh", "-c", script, clock=clock, machine=machine) for _ in range(6)]
    clock.advance(60)
    told = [b"".join(line for _, line in one.log) for one in hogs]
    assert told == [b""] * 4 + [b"head: write error: No space left on device\n"] * 2
    kept = [len(one.files.read("/f") or b"") for one in hogs]
    assert sum(kept) <= (8 << 20) + 2 * (1 << 20)
    assert kept[:4] == [2_000_000] * 4
    small = ContainerHarness(clock=clock, machine=machine)
    assert small.sh("head -c 100000 /dev/zero > /f; wc -c < /f") == "100000\n"
    # Ended containers hold no memory.
    for one in hogs[:-1]:
        one.container.kill()
    assert hogs[-1].sh("rm /f; head -c 5000000 /dev/zero > /f; wc -c < /f") == "5000000\n"


@pytest.mark.parametrize("make", ["true > /d/$i", "mkdir /d/$i", "ln -s x /d/$i", "cp -r /e /d/$i"])
def test_empty_files_count_toward_limits(make: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_MAX_FILES", 200_000)
    loop = f"while {make}; do i=$((i+1)); done"
    harness = ContainerHarness(
        "sh", "-c", f"mkdir /d /e; i=0; {loop} 2> /dev/null; echo $((i > 50)); sleep 999"
    )
    harness.clock.advance(60)
    assert [line for _, line in harness.log] == [b"1\n"]


def test_total_log_size_is_limited_by_shortening_the_largest() -> None:
    logs = ClusterLogs()
    small = logs.create()
    small.write(0.0, 1, b"kept\n")
    hogs = [logs.create() for _ in range(40)]
    for log in hogs:
        for _ in range(11):
            log.write(0.0, 1, b"x" * 900_000 + b"\n")
    assert sum(log.memory_size for log in hogs) <= 256 << 20
    assert [line for _, line in small] == [b"kept\n"]
    hogs[0].write(0.0, 1, b"last\n")
    assert list(hogs[0])[-1] == (0.0, b"last\n")


def test_a_long_word_is_expanded_in_one_step() -> None:
    harness = ContainerHarness()
    assert (
        harness.sh('x=$(seq -s , 20000); eval y=$x z=\\"$x\\"; echo ${#y} ${#z}')
        == "108893 108893\n"
    )


def test_many_words_are_expanded_in_several_steps() -> None:
    harness = ContainerHarness("sh", "-c", "x=$(seq 30000); set -- $x; echo $# ${30000}; sleep 999")
    harness.clock.advance(60)
    assert [line for _, line in harness.log] == [b"30000 30000\n"]
    assert harness.sh(
        "set -- $(seq 3000); shift 2990; echo $# $*; f() { set -- a; }; f; echo $#"
    ) == ("10 2991 2992 2993 2994 2995 2996 2997 2998 2999 3000\n10\n")
    harness.container.kill()
    assert harness.machine.memory.held == 0


DIGITS = "9" * 5000


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("head -n {} /etc/hostname", "head: invalid number '{}'\n1\n"),
        ("tail -c +{} /etc/hostname", "tail: invalid number '{}'\n1\n"),
        ("cut -c {} /etc/hostname", "cut: invalid number '{}'\n1\n"),
        ("dd if=/dev/null of=/dev/null count={}", "dd: invalid number '{}'\n1\n"),
        ("test {} -gt 1", "sh: {}: out of range\n2\n"),
        ("[ 1 -lt -{} ]", "sh: -{}: out of range\n2\n"),
        ("shift {}", "sh: shift: line 0: Illegal number: {}\n2\n"),
        ("for i in 1; do break {}; done", "sh: break: line 0: Illegal number: {}\n2\n"),
        ("wait {}", "sh: wait: line 0: Illegal number: {}\n2\n"),
    ],
)
def test_overlong_numbers_are_invalid(script: str, said: str) -> None:
    harness = ContainerHarness("sh", "-c", "sleep 3600")
    session = harness.run("sh", "-c", f"{script.format(DIGITS)} 2>&1; echo $?; echo on")
    harness.clock.advance(5)
    assert take_output(session)[1].decode() == f"{said.format(DIGITS)}on\n"


@pytest.mark.parametrize("script", ["exit {}", "f() {{ return {}; }}; f; exit $?"])
def test_an_overlong_exit_code_ends_a_shell(script: str) -> None:
    harness = ContainerHarness("sh", "-c", f"{script.format(DIGITS)}; echo no")
    harness.clock.advance(5)
    assert (harness.container.status.exit_code, len(harness.log)) == (0, 0)


class BugError(Exception):
    """An exception that no program expects."""


@pytest.mark.parametrize("error", [BugError, LookupError, OSError, RuntimeError, StatusError])
def test_an_internal_error_ends_only_its_process(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: type[Exception]
) -> None:
    arguments = (404, "NotFound", "not expected") if error is StatusError else ("not expected",)

    def broken(_context: ProcessContext, _args: list[str]) -> Process:
        yield ComputeStep()
        raise error(*arguments)

    monkeypatch.setattr(shellutils, "usleep", broken)
    harness = ContainerHarness("sh", "-c", "sleep 3600")
    ended = harness.run("sh", "-c", "echo before; usleep 1; echo after")
    other = harness.run("sh", "-c", "sleep 1; echo other")
    piped = harness.run("sh", "-c", "usleep 1 | cat; echo $?; usleep 1 & wait $!; echo $?")
    harness.clock.advance(5)
    assert (take_output(ended), ended.output.code) == ({1: b"before\n", 2: b""}, 134)
    assert take_output(piped)[1] == b"0\n134\n"
    assert (take_output(other)[1], harness.container.running) == (b"other\n", True)
    assert "not expected" in caplog.text
    assert re.search(
        r"sh -c echo before; .* \(process \d+\) of a container has crashed", caplog.text
    )


def raise_error() -> None:
    raise BugError


def test_an_internal_error_of_the_first_process_ends_the_container(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(_context: ProcessContext, _args: list[str]) -> Process:
        raise_error()
        yield ComputeStep()
        return 0

    monkeypatch.setattr(shellutils, "usleep", broken)
    harness = ContainerHarness("usleep", "1")
    assert (harness.failure, harness.container.status.exit_code) == ("", 134)
    assert harness.container.status.reason == "Error"


def test_an_internal_error_of_a_condition_ends_only_its_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []

    def fail() -> bool:
        asked.append(1)
        if len(asked) > 1:
            raise BugError
        return False

    def broken(_context: ProcessContext, _args: list[str]) -> Process:
        yield Await(fail)
        return 0

    monkeypatch.setattr(shellutils, "usleep", broken)
    harness = ContainerHarness("sh", "-c", "sleep 3600")
    waiting = harness.run("sh", "-c", "usleep 1")
    other = harness.run("sh", "-c", "sleep 1; echo other")
    harness.clock.advance(5)
    assert (waiting.output.code, take_output(other)[1]) == (134, b"other\n")


def test_an_internal_error_at_the_end_does_not_keep_a_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(_context: ProcessContext, _args: list[str]) -> Process:
        try:
            yield Sleep(60)
        finally:
            raise BugError

    monkeypatch.setattr(shellutils, "usleep", broken)
    harness = ContainerHarness("sh", "-c", "sleep 3600")
    session = harness.run("sh", "-c", "usleep 1 & kill -9 $!; wait $!; echo $?")
    harness.clock.advance(5)
    assert take_output(session)[1] == b"137\n"
