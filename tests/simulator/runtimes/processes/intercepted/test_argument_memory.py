from __future__ import annotations

import errno
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.simulator.runtimes.processes.intercepted.argument_memory import (
    KEPT_CALLS,
    ArgumentMemory,
)
from tests.simulator.runtimes.processes.intercepted.memory import BASE, FakeMemory

if TYPE_CHECKING:
    from collections.abc import Iterator

_BLOCK_BYTES, _SLOT_BYTES = 4096 + 15 * 8192, 8192


class FakeProgram:
    """A program that maps memory: each part after the one before."""

    def __init__(self) -> None:
        self.memory = FakeMemory()
        self.mapped: list[int] = []

    def map_memory(self, size: int) -> int:
        self.mapped.append(size)
        return self.memory.add(bytes(size))


@pytest.fixture
def program() -> FakeProgram:
    return FakeProgram()


@pytest.fixture
def child() -> Iterator[int]:
    """A child of this process."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process.pid
        process.kill()


def _find(used: ArgumentMemory, program: FakeProgram, size: int = 100, thread: int = 0) -> int:
    return used.find(thread or os.getpid(), size, program.memory, program.map_memory)


def test_memory_is_mapped_once(program: FakeProgram) -> None:
    used = ArgumentMemory()
    addresses = [_find(used, program) for _ in range(KEPT_CALLS)]
    assert program.mapped == [_BLOCK_BYTES]
    assert min(addresses) >= BASE + 4096
    assert len({address // _SLOT_BYTES for address in addresses}) == KEPT_CALLS
    assert _find(used, program) == addresses[0]
    assert _find(used, program) == addresses[1]
    assert program.mapped == [_BLOCK_BYTES]


def test_larger_memory_is_mapped_and_used_again(program: FakeProgram) -> None:
    used = ArgumentMemory()
    _find(used, program)
    large = _find(used, program, 100_000)
    assert program.mapped == [_BLOCK_BYTES, 4096 + (1 << 17)]
    for _ in range(KEPT_CALLS):
        assert _find(used, program) != large
    assert _find(used, program, 90_000) == large
    assert len(program.mapped) == 2


def test_program_that_was_replaced_has_no_memory(program: FakeProgram) -> None:
    used = ArgumentMemory()
    _find(used, program)
    program.memory.data = bytearray(len(program.memory.data))
    _find(used, program)
    program.memory.data.clear()
    _find(used, program)
    assert program.mapped == [_BLOCK_BYTES] * 3


def test_child_uses_the_memory_of_its_parent(program: FakeProgram, child: int) -> None:
    used = ArgumentMemory()
    own = _find(used, program)
    assert _find(used, program, thread=child) != own
    assert program.mapped == [_BLOCK_BYTES]


def test_memory_of_ended_threads_is_used_again(program: FakeProgram) -> None:
    used = ArgumentMemory()
    _find(used, program)
    for _ in range(10):
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
            for _ in range(KEPT_CALLS):
                _find(used, program, thread=process.pid)
            process.kill()
    assert program.mapped == [_BLOCK_BYTES]


def test_refused_memory(program: FakeProgram) -> None:
    def refuse(_: int) -> int:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    with pytest.raises(OSError, match="Cannot allocate memory"):
        ArgumentMemory().find(os.getpid(), 100, program.memory, refuse)


def test_thread_that_has_ended(program: FakeProgram) -> None:
    with pytest.raises(FileNotFoundError):
        _find(ArgumentMemory(), program, thread=(1 << 22) + 1)
