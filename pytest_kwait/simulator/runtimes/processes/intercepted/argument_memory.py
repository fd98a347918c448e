"""The memory of programs where changed arguments of their calls are kept.

A program gets a part of its memory for them when a call of it is changed for the first time: below
the stack pointer may be the memory of others, as goroutines have small stacks. A thread keeps slots
there for its last calls: a signal may interrupt one, whose handler makes the next, and it is made
again after that. Forked children have their parent's memory, shared or as a copy, and use it on: a
mark at its start tells that it is there.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pytest_kwait.simulator.runtimes.processes.intercepted.calls import ProcessMemory
from pytest_kwait.simulator.runtimes.processes.intercepted.users import as_user_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.runtimes.processes.intercepted.calls import Memory

_PAGE = 4096
_MARK_BYTES = 16
# Two paths of the greatest length.
_SLOT_BYTES = 2 * _PAGE
_SLOTS = 15
KEPT_CALLS = 4
"""The last changed calls of a thread whose arguments are kept."""
_MAX_KEPT = 1024


class _Block:
    """A part of a program's memory: its mark, and slots behind it.

    Args:
        address: its first byte.
        slot_bytes: length of each slot, a multiple of the length of a page.
        slots: how many there are.
    """

    def __init__(self, address: int, slot_bytes: int, slots: int) -> None:
        self._address, self.slot_bytes = address, slot_bytes
        self._mark = os.urandom(_MARK_BYTES)
        self.free = [address + _PAGE + number * slot_bytes for number in range(slots)]

    def write_mark(self, memory: Memory) -> None:
        """Write the mark."""
        memory.write(self._address, self._mark)

    def is_in(self, memory: Memory) -> bool:
        """Return whether a program has it: else the program has been replaced by another one."""
        try:
            return memory.read(self._address, _MARK_BYTES) == self._mark
        except OSError:
            return False


class ArgumentMemory:
    """The memory for changed arguments of all programs of an interceptor."""

    def __init__(self) -> None:
        self._blocks: dict[int, list[_Block]] = {}
        self._held: dict[int, list[tuple[_Block, int]]] = {}

    def find(self, thread: int, size: int, memory: Memory, map_memory: Callable[[int], int]) -> int:
        """Return the address of memory for a call of a thread.

        The thread has it until it has made `KEPT_CALLS` more changed calls, or ends.

        Args:
            size: bytes that are needed.
            memory: the program's.
            map_memory: maps as many bytes into the program's memory and returns their address, a
                multiple of the length of a page.

        Raises:
            OSError: no memory could be mapped, or the thread has ended.
        """
        process, parent = _read_family(thread)
        if process not in self._blocks:
            self._forget_ended()
        known = self._blocks.get(process) or self._blocks.get(parent, [])
        blocks = self._blocks[process] = [block for block in known if block.is_in(memory)]
        held = self._held.setdefault(thread, [])
        _release(held, KEPT_CALLS - 1)
        block = _find_free(blocks, size)
        if block is None:
            self._release_ended()
            block = _find_free(blocks, size)
        if block is None:
            block = self._map(size, memory, map_memory)
            blocks.append(block)
            if _is_shared(block, parent):
                self._blocks.setdefault(parent, []).append(block)
        address = block.free.pop()
        held.append((block, address))
        return address

    @staticmethod
    def _map(size: int, memory: Memory, map_memory: Callable[[int], int]) -> _Block:
        slot_bytes, slots = _SLOT_BYTES, _SLOTS
        if size > _SLOT_BYTES:
            slot_bytes, slots = 1 << (size - 1).bit_length(), 1
        block = _Block(map_memory(_PAGE + slot_bytes * slots), slot_bytes, slots)
        block.write_mark(memory)
        return block

    def _release_ended(self) -> None:
        for thread, held in list(self._held.items()):
            if not _is_alive(thread):
                _release(held, 0)
                del self._held[thread]

    def _forget_ended(self) -> None:
        if len(self._blocks) >= _MAX_KEPT:
            for process in list(self._blocks):
                if not _is_alive(process):
                    del self._blocks[process]


def _release(held: list[tuple[_Block, int]], kept: int) -> None:
    """Release the oldest of what a thread holds, but for as many as are kept."""
    while len(held) > kept:
        block, address = held.pop(0)
        block.free.append(address)


def _find_free(blocks: list[_Block], size: int) -> _Block | None:
    fitting = [block for block in blocks if block.free and block.slot_bytes >= size]
    return min(fitting, key=lambda block: block.slot_bytes, default=None)


def _is_shared(block: _Block, parent: int) -> bool:
    """Return whether the parent of a process has its memory too, as after vfork."""
    try:
        with as_user_of(parent):
            memory = ProcessMemory(parent)
    except OSError:
        return False
    try:
        return block.is_in(memory)
    finally:
        memory.close()


def _is_alive(thread: int) -> bool:
    return os.path.exists(f"/proc/{thread}")


def _read_family(thread: int) -> tuple[int, int]:
    """Return the process of a thread, and its parent.

    Raises:
        OSError: the thread has ended.
    """
    with open(f"/proc/{thread}/status", "rb") as file:
        text = file.read()
    process = text.split(b"\nTgid:", 1)[1].split(None, 1)[0]
    parent = text.split(b"\nPPid:", 1)[1].split(None, 1)[0]
    return int(process), int(parent)
