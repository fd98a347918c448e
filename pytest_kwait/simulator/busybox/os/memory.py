"""Memory and disk of containers: accounts, limits, and the machine that all share."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol
from weakref import WeakKeyDictionary, WeakSet

from pytest_kwait.simulator.busybox.os.files import StorageQuota, get_stored_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_kwait.simulator.busybox.os.files import Directory
    from pytest_kwait.simulator.clock import SimClock

_MAX_MEMORY = 32 << 20
"""The memory of a container without a limit."""

_MAX_FILES = 64 << 20
# Limits of memory and files for all containers of a cluster together, and the share of files that
# a container may keep even when the total is reached.
_MAX_ALL_MEMORY = 128 << 20
_MAX_ALL_FILES = 256 << 20
_MIN_SHARE = 1 << 20
# The overhead of a process in bytes.
_PROCESS_SIZE = 9 << 10


class OutOfMemoryError(Exception):
    """The container is OOM-killed."""


class MemoryAccount:
    """The memory of one container.

    Args:
        limit: bytes, as `resources.limits.memory`; None without one.
        files: counts the bytes of its files, except in folders of the given set, which it updates.
        machine: the memory that all containers share.
        on_out_of_memory: called when the machine is full and this container holds the most.
    """

    __slots__ = (
        "__weakref__",
        "_disk",
        "_limited",
        "_machine",
        "files",
        "held",
        "limit",
        "on_out_of_memory",
    )

    def __init__(
        self,
        limit: int | None,
        files: Callable[[set[int]], int],
        machine: MachineMemory,
        on_out_of_memory: Callable[[], None],
    ) -> None:
        self.limit = min(limit, _MAX_MEMORY) if limit is not None else _MAX_MEMORY
        self.held = 0
        self.files = files
        self.on_out_of_memory = on_out_of_memory
        self._limited = limit is not None
        self._disk = StorageQuota(_MAX_FILES, lambda: files(set()))
        self._machine = machine
        machine.accounts[self] = 0

    def take(self, size: int) -> None:
        """Take more bytes.

        Raises:
            OutOfMemoryError: the limit is exceeded.
        """
        self.held += size
        self._machine.take(self, size)
        if self.held > self.limit:
            raise OutOfMemoryError

    def give(self, size: int) -> None:
        """Give bytes back."""
        self.held -= size
        self._machine.give(self, size)

    def begin_process(self) -> None:
        """Charge the overhead of a process to the machine, not to the container's limit.

        Raises:
            OutOfMemoryError: the machine is full, and this container holds the most.
        """
        self._machine.take(self, _PROCESS_SIZE)

    def end_process(self) -> None:
        """Give back the overhead of a process."""
        self._machine.give(self, _PROCESS_SIZE)

    def close(self) -> None:
        """Give everything back."""
        self._machine.accounts.pop(self, None)

    @contextmanager
    def hold(self) -> Iterator[MemoryHold]:
        """Return a hold that is given back at the end of the `with` block."""
        hold = MemoryHold(self)
        try:
            yield hold
        finally:
            self.give(hold.size)

    def reserve(self, grown: int, quota: StorageQuota | None = None) -> bool:
        """Reserve bytes of the disk, and of a volume in memory if given; False if they do not fit.

        Raises:
            OutOfMemoryError: the volume has room, but the container's memory limit is exceeded.
        """
        if quota is not None:
            if not quota.reserve(grown):
                return False
            if self._limited and not quota.is_within(self.limit - self.held):
                raise OutOfMemoryError
        # On a full disk, a small share is still granted.
        return self._disk.reserve(grown) and (
            self._machine.disk.reserve(grown) or self._disk.is_within(_MIN_SHARE)
        )


class StorageOwner(Protocol):
    """An owner of folders outside containers."""

    def folders(self) -> Iterable[Directory]:
        """Return the folders."""


class MachineMemory:
    """The memory and disk that all containers of a cluster share."""

    def __init__(self, clock: SimClock) -> None:
        self._clock = clock
        self.accounts: WeakKeyDictionary[MemoryAccount, int] = WeakKeyDictionary()
        """The bytes of each container, with its processes."""
        self.storage_owners: WeakSet[StorageOwner] = WeakSet()
        self.disk = StorageQuota(_MAX_ALL_FILES, self._stored)
        self._held = 0

    @property
    def held(self) -> int:
        """The bytes of all containers."""
        return sum(self.accounts.values())

    def take(self, account: MemoryAccount, size: int) -> None:
        """Charge bytes to a container; if the machine is full, OOM-kill the largest container.

        Raises:
            OutOfMemoryError: this container is the largest.
        """
        if account not in self.accounts:
            return
        self.accounts[account] += size
        self._held += size
        if self._held <= _MAX_ALL_MEMORY:
            return
        # Ended containers drop out only of a new count.
        self._held = self.held
        if self._held <= _MAX_ALL_MEMORY:
            return
        largest = max(self.accounts, key=self.accounts.__getitem__)
        if largest is account:
            raise OutOfMemoryError
        self._held -= self.accounts.pop(largest)
        self._clock.call_later(0, largest.on_out_of_memory)

    def give(self, account: MemoryAccount, size: int) -> None:
        """Give bytes of a container back."""
        if account in self.accounts:
            self.accounts[account] -= size
            self._held -= size

    def _stored(self) -> int:
        counted: set[int] = set()
        own = sum(account.files(counted) for account in list(self.accounts))
        return own + sum(
            get_stored_size(folder, counted)
            for owner in list(self.storage_owners)
            for folder in owner.folders()
        )


class MemoryHold:
    """The memory of one running program."""

    __slots__ = ("_account", "size")

    def __init__(self, account: MemoryAccount) -> None:
        self._account = account
        self.size = 0

    def resize(self, size: int) -> None:
        """Change the hold to `size` bytes.

        Raises:
            OutOfMemoryError: the limit is exceeded.
        """
        grown, self.size = size - self.size, size
        self._account.take(grown)
