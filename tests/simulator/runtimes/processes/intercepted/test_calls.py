"""The memory of programs, and arguments of their system calls."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys

import pytest

from pytest_kwait.simulator.runtimes.processes.intercepted.calls import (
    PATH_MAX,
    Change,
    Pointers,
    ProcessMemory,
    as_signed,
    read_pointers,
    read_string,
)
from tests.simulator.runtimes.processes.intercepted.memory import BASE, FakeMemory


def test_string_ends_with_a_zero() -> None:
    data = bytes(BASE) + b"/etc/hosts\0rest" + bytes(BASE)
    assert read_string(FakeMemory(data), 2 * BASE) == b"/etc/hosts"


def test_string_may_end_before_memory_that_cannot_be_read() -> None:
    memory = FakeMemory(bytes(0x1000 - 4) + b"tmp\0")
    assert read_string(memory, BASE + 0x1000 - 4) == b"tmp"


def test_string_over_two_pages_is_read() -> None:
    memory = FakeMemory(bytes(0x1000 - 4) + b"/var/tmp\0" + bytes(0x1000))
    assert read_string(memory, BASE + 0x1000 - 4) == b"/var/tmp"


def test_string_without_end_is_too_long() -> None:
    with pytest.raises(OSError, match="File name too long") as raised:
        read_string(FakeMemory(b"a" * 2 * PATH_MAX), BASE)
    assert raised.value.errno == errno.ENAMETOOLONG


def test_string_at_no_memory_is_a_fault() -> None:
    with pytest.raises(OSError, match="Bad address"):
        read_string(FakeMemory(), 0)


@pytest.mark.skipif(sys.platform != "linux", reason="memory is a file of /proc")
def test_memory_of_a_process_is_read_and_written() -> None:
    memory = ProcessMemory(os.getpid())
    text = ctypes.create_string_buffer(b"before")
    address = ctypes.addressof(text)
    assert memory.read(address, 6) == b"before"
    memory.write(address, b"after\0")
    assert text.value == b"after"
    for call in (lambda: memory.read(0, 1), lambda: memory.write(0, b"x")):
        with pytest.raises(OSError, match="Bad address"):
            call()
    with pytest.raises(OSError, match="Bad address"):
        memory.read((1 << 64) - 1, 1)
    memory.close()


@pytest.mark.parametrize(
    ("argument", "value"),
    [(0, 0), (0xFFFFFF9C, -100), ((1 << 64) - 100, -100), (0x7FFFFFFF, 2147483647)],
)
def test_argument_of_32_bits_has_a_sign(argument: int, value: int) -> None:
    assert as_signed(argument) == value


def test_pointers_end_with_a_null_pointer() -> None:
    memory = FakeMemory(bytes(0x1000 - 16) + struct.pack("=3Q", 7, 8, 0))
    assert read_pointers(memory, BASE + 0x1000 - 16) == (7, 8)
    assert read_pointers(memory, BASE) == ()
    assert read_pointers(memory, 0) == ()
    with pytest.raises(OSError, match="Bad address"):
        read_pointers(memory, 8)


def test_too_many_pointers() -> None:
    with pytest.raises(OSError, match="Argument list too long"):
        read_pointers(FakeMemory(struct.pack("=Q", 7) * ((1 << 17) + 512)), BASE)


def test_changed_arguments_are_laid_out_one_behind_the_other() -> None:
    change = Change({0: b"/bin/sh\0", 1: Pointers((b"sh\0", 0x77)), 2: 5})
    values, contents = change.lay_out(0x100)
    assert values == {0: 0x100, 1: 0x120, 2: 5}
    assert contents == {
        0x100: b"/bin/sh\0",
        0x110: b"sh\0",
        0x120: struct.pack("=3Q", 0x110, 0x77, 0),
    }
    assert change.size == 0x40
