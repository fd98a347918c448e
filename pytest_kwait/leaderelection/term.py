"""The context of one leadership: what the leader does must stop with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.errors import KwaitError
from pytest_kwait.wait.context import Context

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.wait.errors import Canceled, DeadlineExceeded

__all__ = ["LeadershipContext"]


class LeadershipContext(Context):
    """Ends with the candidacy, with the leadership, and for whoever looks with the lease.

    A process that was frozen past its lease finds `err` true in its first step; its elector, which
    sets `done`, may be woken a moment later than the thread that leads.

    Args:
        parent: the context of the candidacy.
        leads: whether the lease is held, as far as this candidate can know.
    """

    def __init__(self, parent: Context, leads: Callable[[], bool]) -> None:
        super().__init__(parent.clock, parent=parent)
        self._leads = leads
        self._lapsed = False

    def err(self) -> Canceled | DeadlineExceeded | None:
        """Why the leadership has ended; None while it has not."""
        if not self._lapsed and not self._leads():
            self._lapsed = True
            self.cancel(KwaitError("the lease is not held any more"))
        return super().err()
