"""Scripts that would harm a node: they harm nobody but themselves."""

from __future__ import annotations

import pytest

from tests.simulator.kubelet.container_room import Room, taken
from tests.simulator.manual_clock import ManualClock

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
def test_what_never_ends_gives_way(script: str) -> None:
    room = Room("sh", "-c", script)
    room.clock.advance(1)
    assert room.container.running
    # Somebody else still has a turn, and the log has an end.
    room.container.kill()
    assert room.container.exit_code == 137
    assert len(room.container.log) < 200_000


def test_a_loop_leaves_its_neighbours_their_time() -> None:
    room = Room("sh", "-c", "while :; do :; done")
    room.clock.advance(1)
    session = room.run("sh", "-c", "sleep 1; echo done")
    room.clock.advance(3)
    assert taken(session)[1] == b"done\n"


@pytest.mark.parametrize(
    "script",
    [
        "x=x; while :; do x=$x$x; done",
        "tail /dev/zero",
        "x=$(cat /dev/zero); echo no",
        "x=$(yes); echo no",
        "cat /dev/zero | sort",
        "dd if=/dev/zero of=/dev/null bs=1G count=1",
        "i=0; while :; do i=$((i+1)); eval v$i=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx$i; done",
    ],
)
def test_who_holds_more_than_the_limit_is_killed(script: str) -> None:
    room = Room("sh", "-c", script, memory=1 << 20)
    room.clock.advance(60)
    assert room.container.exit_code == 137
    assert room.container.reason == "OOMKilled"


def test_without_a_limit_the_node_has_an_end_too() -> None:
    room = Room("sh", "-c", "tail /dev/zero")
    room.clock.advance(60)
    assert room.container.reason == "OOMKilled"


def test_who_keeps_below_the_limit_lives() -> None:
    turn = "x=$(head -c 100000 /dev/zero | tr '\\0' x); i=$((i+1))"
    script = f"i=0; while [ $i -lt 50 ]; do {turn}; done"
    room = Room("sh", "-c", script, memory=1 << 20)
    room.clock.advance(60)
    assert room.container.exit_code == 0


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
def test_what_goes_too_deep_or_too_far(script: str, code: int, err: bytes) -> None:
    room = Room()
    session = room.run("sh", "-c", script)
    room.clock.advance(60)
    assert session.outlet.code == code
    assert taken(session)[2] == err


def test_processes_are_counted() -> None:
    room = Room()
    session = room.run("sh", "-c", "i=0; while :; do sleep 99 & done")
    room.clock.advance(60)
    assert session.outlet.code == 2
    assert taken(session)[2] == b"sh: can't fork: Resource temporarily unavailable\n"


@pytest.mark.parametrize(
    ("script", "code", "err"),
    [
        (":(){ :|:& };:", 2, b"sh: syntax error: bad function name"),
        ("f() { f & f; }; f", 2, b"sh: can't fork: Resource temporarily unavailable"),
    ],
)
def test_a_fork_bomb_ends_itself_and_nobody_else(script: str, code: int, err: bytes) -> None:
    bomb, other = Room("sh", "-c", script), Room("sh", "-c", "sleep 1; echo done; sleep 99")
    for room in (bomb, other):
        room.clock.advance(60)
    assert bomb.container.exit_code == code
    assert {line for _, line in bomb.container.log} == {err}
    assert [line for _, line in other.container.log] == [b"done"]


@pytest.mark.parametrize(
    "script",
    [
        "while kill -0 $$; do :; done",
        "until false; do (true); done",
        "while :; do x=$(echo a | cat); done",
        "while :; do true & done",
    ],
)
def test_an_endless_loop_of_processes_leaves_turns_and_keeps_nothing(script: str) -> None:
    room = Room("sh", "-c", script, memory=1 << 20)
    session = room.run("sh", "-c", "sleep 0.2; echo done")
    room.clock.advance(1)
    assert taken(session)[1] == b"done\n"
    assert room.container.running
    assert len(room.container.log) == 0


def test_who_is_killed_before_its_first_turn_holds_nothing() -> None:
    turn = "i=$((i+1)); sleep 99 & kill $!; wait"
    script = f"i=0; while [ $i -lt 400 ]; do {turn}; done"
    room = Room("sh", "-c", script, memory=64 << 10)
    room.clock.advance(60)
    assert room.container.exit_code == 0


def test_a_huge_log_keeps_its_last_10_mebibytes() -> None:
    room = Room("sh", "-c", "seq 200000")
    while room.container.running:
        room.clock.advance(60)
    lines = [line for _, line in room.container.log]
    assert room.container.exit_code == 0
    assert lines[-1] == b"200000"
    assert lines == [b"%d" % number for number in range(200_001 - len(lines), 200_001)]
    assert sum(map(len, lines)) <= 10 << 20
    assert len(lines) > 50_000


def test_hogs_of_one_cluster_leave_others_their_turn() -> None:
    clock = ManualClock()
    hogs = [Room("sh", "-c", "while :; do :; done", clock=clock) for _ in range(20)]
    clock.advance(0.5)
    session = Room("sleep", "99", clock=clock).run("sh", "-c", "sleep 0.2; echo done")
    clock.advance(1)
    assert taken(session)[1] == b"done\n"
    assert all(room.container.running for room in hogs)
