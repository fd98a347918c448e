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

__all__ = [
    "Machine",
    "MemoryAccount",
    "MemoryHold",
    "OutOfMemoryError",
    "StorageOwner",
    "get_machine",
]

_MAX_MEMORY = 32 << 20
"""What one container may hold without a limit: the embedded node's memory is no larger."""

_MAX_FILES = 64 << 20
# What all containers of a cluster may hold, and keep in files, together; and what one may keep
# even where that is full already.
_MAX_ALL_MEMORY = 128 << 20
_MAX_ALL_FILES = 256 << 20
_MIN_SHARE = 1 << 20
# What a process takes beside what it holds.
_PROCESS_SIZE = 9 << 10


class OutOfMemoryError(Exception):
    """The kernel ends the container."""


class MemoryAccount:
    """The memory of one container.

    Args:
        limit: bytes, as `resources.limits.memory`; None without.
        files: counts the bytes of its files but those of folders that are in the given set, to
            which the others are added.
        machine: what it shares with other containers.
        on_out_of_memory: called later when the machine has no more memory and this one holds the most.
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
        machine: Machine,
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
        """Hold so many bytes more.

        Raises:
            OutOfMemory: that is more than there is.
        """
        self.held += size
        self._machine.take(self, size)
        if self.held > self.limit:
            raise OutOfMemoryError

    def give(self, size: int) -> None:
        """Hold so many bytes less."""
        self.held -= size
        self._machine.give(self, size)

    def begin_process(self) -> None:
        """Have one process more, which the machine knows of and the container's limit does not.

        Raises:
            OutOfMemory: the machine has no more memory, and this container holds the most.
        """
        self._machine.take(self, _PROCESS_SIZE)

    def end_process(self) -> None:
        """Have one process less."""
        self._machine.give(self, _PROCESS_SIZE)

    def close(self) -> None:
        """Hold nothing any more."""
        self._machine.accounts.pop(self, None)

    @contextmanager
    def hold(self) -> Iterator[MemoryHold]:
        """Something that is given back at its end, whatever it has grown to."""
        hold = MemoryHold(self)
        try:
            yield hold
        finally:
            self.give(hold.size)

    def fits(self, grown: int, quota: StorageQuota | None = None) -> bool:
        """Whether the disk has room for so many bytes more, or else a volume in memory.

        Raises:
            OutOfMemory: a volume in memory has, but the container may not hold as much.
        """
        if quota is not None:
            if not quota.fits(grown):
                return False
            if self._limited and not quota.holds(self.limit - self.held):
                raise OutOfMemoryError
        # A full machine refuses those who have much.
        return self._disk.fits(grown) and (
            self._machine.disk.fits(grown) or self._disk.holds(_MIN_SHARE)
        )


class StorageOwner(Protocol):
    """Folders that are no container's own."""

    def folders(self) -> Iterable[Directory]:
        """Return them."""
        ...


class Machine:
    """What all containers of a cluster share: the memory and the disk of one process.

    Args:
        clock: the cluster's time.
    """

    def __init__(self, clock: SimClock) -> None:
        self._clock = clock
        self.accounts: WeakKeyDictionary[MemoryAccount, int] = WeakKeyDictionary()
        """What each container holds, its processes with it."""
        self.storage_owners: WeakSet[StorageOwner] = WeakSet()
        self.disk = StorageQuota(_MAX_ALL_FILES, self._stored)
        self._held = 0

    @property
    def held(self) -> int:
        """The bytes that all of them hold together."""
        return sum(self.accounts.values())

    def take(self, account: MemoryAccount, size: int) -> None:
        """Note that a container holds more; the one that holds the most ends if it is too much.

        Raises:
            OutOfMemory: that is this one.
        """
        if account not in self.accounts:
            return
        self.accounts[account] += size
        self._held += size
        if self._held <= _MAX_ALL_MEMORY:
            return
        # Those that have ended are only left out when they are counted anew.
        self._held = self.held
        if self._held <= _MAX_ALL_MEMORY:
            return
        largest = max(self.accounts, key=self.accounts.__getitem__)
        if largest is account:
            raise OutOfMemoryError
        self._held -= self.accounts.pop(largest)
        self._clock.call_later(0, largest.on_out_of_memory)

    def give(self, account: MemoryAccount, size: int) -> None:
        """Note that a container holds less."""
        if account in self.accounts:
            self.accounts[account] -= size
            self._held -= size

    def _stored(self) -> int:
        seen: set[int] = set()
        own = sum(account.files(seen) for account in list(self.accounts))
        return own + sum(
            get_stored_size(folder, seen)
            for owner in list(self.storage_owners)
            for folder in owner.folders()
        )


def get_machine(clock: SimClock) -> Machine:
    """Return the machine of a cluster."""
    return clock.get_shared(Machine, lambda: Machine(clock))


class MemoryHold:
    """What one program holds.

    Args:
        account: of its container.
    """

    __slots__ = ("_account", "size")

    def __init__(self, account: MemoryAccount) -> None:
        self._account = account
        self.size = 0

    def to(self, size: int) -> None:
        """Hold so many bytes from now on.

        Raises:
            OutOfMemory: that is more than there is.
        """
        grown, self.size = size - self.size, size
        self._account.take(grown)
