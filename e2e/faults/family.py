"""What a family of waits is: something of its own to wait for, which a test can bring about."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from e2e.faults.place import Place

__all__ = ["POLL", "Family"]

POLL = 0.1
"""Seconds between two looks in poll mode, and at what cannot be watched."""


class Family(ABC):
    """A wait, its object, and what makes it come true.

    Args:
        place: where.
        name: the name of its object.
    """

    title: ClassVar[str]
    watches: ClassVar[int] = 1
    """How many watches it has open."""

    asks: ClassVar[str] = ""
    """How the label of a question begins that it asks besides; empty where it asks none."""

    shared: ClassVar[bool] = True
    """Whether several waits can have the same object."""

    lasts: ClassVar[bool] = True
    """Whether it is under way before it comes true, so that something can happen midway."""

    def __init__(self, place: Place, name: str) -> None:
        self.place = place
        self.name = name

    @abstractmethod
    def prepare(self) -> None:
        """Make the object."""

    @abstractmethod
    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Wait over a client."""

    @abstractmethod
    def bring_about(self) -> None:
        """Let come true what is awaited."""

    @abstractmethod
    def is_right(self, result: Any) -> bool:
        """Say whether this is what the wait must return."""

    def dispose(self) -> None:
        """Remove what does not go with the namespace."""
        return
