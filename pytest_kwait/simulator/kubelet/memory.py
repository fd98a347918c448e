"""What a container's processes hold in memory, and when it is too much."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Account", "Hold", "OutOfMemory"]

_MOST = 32 << 20
"""What one container may hold without a limit: the embedded node's memory is no larger."""

_MOST_FILES = 64 << 20
_PROCESS = 4096


class OutOfMemory(Exception):
    """The kernel ends the container."""


class Account:
    """The memory of one container.

    Args:
        limit: bytes, as `resources.limits.memory`; None without.
        files: the bytes of its files.
    """

    __slots__ = ("_checked", "_files", "_grown", "held", "limit")

    def __init__(self, limit: int | None, files: Callable[[], int]) -> None:
        self.limit = min(limit, _MOST) if limit is not None else _MOST
        self.held = 0
        self._files = files
        self._checked = 0
        self._grown = 0

    def take(self, size: int) -> None:
        """Hold so many bytes more.

        Raises:
            OutOfMemory: that is more than there is.
        """
        self.held += size
        if self.held > self.limit:
            raise OutOfMemory

    def give(self, size: int) -> None:
        """Hold so many bytes less."""
        self.held -= size

    @contextmanager
    def hold(self) -> Iterator[Hold]:
        """Something that is given back at its end, whatever it has grown to."""
        hold = Hold(self)
        try:
            yield hold
        finally:
            self.give(hold.size)

    def fits(self, grown: int) -> bool:
        """Whether the disk has room for so many bytes more."""
        self._grown += grown
        if self._checked + self._grown > _MOST_FILES:
            self._checked, self._grown = self._files(), grown
        return self._checked + self._grown <= _MOST_FILES


class Hold:
    """What one program holds.

    Args:
        account: of its container.
    """

    __slots__ = ("_account", "size")

    def __init__(self, account: Account) -> None:
        self._account = account
        self.size = 0

    def to(self, size: int) -> None:
        """Hold so many bytes from now on.

        Raises:
            OutOfMemory: that is more than there is.
        """
        grown, self.size = size - self.size, size
        self._account.take(grown)
