"""Observers of a run in other plugins: the waits of its tests, and the objects that they apply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kwait.engine.active_waits import ActiveWait

APPLY_LISTENERS: list[Callable[[Any, list[dict[str, Any]]], object]] = []
"""Called with each `Kwait` and the objects that it has applied or created, in its thread.

An error of a listener is raised by the call.
"""

ADOPT_LISTENERS: list[Callable[[Mapping[str, Any]], object]] = []
"""Called with each object that another program, such as helm, has created for a test."""


@dataclass(frozen=True, slots=True)
class WaitInfo:
    """A wait at its start or end, as hooks get it; its texts have no values of Secrets.

    Args:
        name: the wait, for example `wait_for_job_complete`; empty for a part of a verb.
        subject: the object or objects, for example `job ci-1/pi`.
        goal: the awaited state, as a verb, for example `be complete`.
        namespace: the namespace of the objects; empty for cluster-scoped ones and for several.
        step: the steps of the test that it is in, outermost first; empty outside of any.
        limit: its limit in seconds, before the test's own timeout shortens it; 0 if unknown.
        outcome: `met`, `failed early`, `timed out`, `error` (of the API) or `interrupted`; empty at
            its start.
        elapsed: its duration in seconds; 0 at its start.
        retries: the number of retried API errors; 0 at its start.
        headline: why it was not met, in one line; empty if it was, and at its start.
    """

    name: str
    subject: str
    goal: str
    namespace: str = ""
    step: str = ""
    limit: float = 0.0
    outcome: str = ""
    elapsed: float = 0.0
    retries: int = 0
    headline: str = ""


def describe_wait(wait: ActiveWait) -> WaitInfo:
    """Return the facts of a wait as they are now."""
    namespaces = wait.namespaces
    return WaitInfo(
        name=wait.name,
        subject=wait.hide(wait.subject),
        goal=wait.hide(wait.goal),
        namespace=namespaces[0] if len(namespaces) == 1 else "",
        step=wait.hide(wait.step),
        limit=wait.limit,
        outcome=wait.outcome,
        elapsed=wait.seconds,
        retries=wait.retries,
        headline=_headline_of(wait),
    )


def _headline_of(wait: ActiveWait) -> str:
    if wait.outcome in ("", "met"):
        return ""
    if wait.report is not None:
        return wait.report.headline
    reason = " ".join((wait.trouble or wait.seen).split())
    headline = f"{wait.subject} did not {wait.goal}: {wait.outcome}"
    return wait.hide(f"{headline}: {reason}" if reason else headline)
