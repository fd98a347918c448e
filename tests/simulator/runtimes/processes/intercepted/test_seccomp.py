"""Filters of system calls."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.simulator.runtimes.processes.intercepted.network import PASSED_FLAGS, NetworkCalls
from pytest_kwait.simulator.runtimes.processes.intercepted.seccomp import Condition, build_filter
from pytest_kwait.simulator.runtimes.processes.intercepted.system_calls import AARCH64, X86_64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kwait.simulator.runtimes.processes.intercepted.system_calls import Processor

ALLOWED, NOTIFIED, NO_SUCH_CALL = 0x7FFF0000, 0x7FC00000, 0x00050026
PROCESSORS = pytest.mark.parametrize("processor", [X86_64, AARCH64], ids=["x86_64", "aarch64"])


def decide(
    program: Sequence[tuple[int, int, int, int]], architecture: int, number: int, *arguments: int
) -> int:
    """Return what a filter returns, as the kernel's interpreter does."""
    padded = (*arguments, *[0] * 6)[:6]
    data = struct.pack("=iIQ6Q", number, architecture, 0, *padded)
    accumulator = place = 0
    while True:
        code, if_true, if_false, value = program[place]
        place += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("=I", data, value)
        elif code == 0x06:
            return value
        else:
            is_true = accumulator == value if code == 0x15 else accumulator > value
            place += if_true if is_true else if_false


@PROCESSORS
def test_call_without_conditions_is_notified(processor: Processor) -> None:
    program = build_filter(processor, {"bind": ()}, ())
    numbers = processor.numbers
    assert decide(program, processor.architecture, numbers["bind"]) == NOTIFIED
    assert decide(program, processor.architecture, numbers["connect"]) == ALLOWED


@PROCESSORS
def test_call_is_notified_where_all_conditions_hold(processor: Processor) -> None:
    program = build_filter(
        processor, {"setsockopt": (Condition(1, (41,)), Condition(2, (26, 27)))}, ()
    )

    def decide_about(level: int, name: int) -> int:
        number = processor.numbers["setsockopt"]
        return decide(program, processor.architecture, number, 3, level, name)

    assert decide_about(41, 26) == decide_about(41, 27) == NOTIFIED
    assert decide_about(40, 26) == decide_about(41, 28) == ALLOWED


@PROCESSORS
@pytest.mark.parametrize("address", [1, 1 << 32, 1 << 63])
def test_pointer_is_looked_at_whole(processor: Processor, address: int) -> None:
    program = build_filter(processor, {"accept4": (Condition(1),)}, ())
    number = processor.numbers["accept4"]
    assert decide(program, processor.architecture, number, 3, address) == NOTIFIED
    assert decide(program, processor.architecture, number, 3, 0, address) == ALLOWED


@PROCESSORS
def test_excluded_value_is_allowed(processor: Processor) -> None:
    program = build_filter(processor, NetworkCalls.CAUGHT, ())
    number = processor.numbers["sendmsg"]
    assert decide(program, processor.architecture, number, 3, 4, 0) == NOTIFIED
    assert decide(program, processor.architecture, number, 3, 4, PASSED_FLAGS) == ALLOWED


@PROCESSORS
def test_refused_call_is_not_known(processor: Processor) -> None:
    program = build_filter(processor, {}, ["io_uring_setup", "no_such_name"])
    assert decide(program, processor.architecture, 425) == NO_SUCH_CALL
    assert decide(program, processor.architecture, 424) == ALLOWED


@PROCESSORS
def test_call_of_another_architecture_is_not_known(processor: Processor) -> None:
    program = build_filter(processor, {"bind": ()}, ())
    i386 = 0x40000003
    assert decide(program, i386, processor.numbers["bind"]) == NO_SUCH_CALL


def test_call_of_x32_is_not_known() -> None:
    program = build_filter(X86_64, {"bind": ()}, ())
    assert decide(program, X86_64.architecture, 0x40000000 | 49) == NO_SUCH_CALL


@PROCESSORS
def test_names_without_a_number_are_left_out(processor: Processor) -> None:
    program = build_filter(processor, {"open": (), "openat": ()}, ())
    assert decide(program, processor.architecture, processor.numbers["openat"]) == NOTIFIED
