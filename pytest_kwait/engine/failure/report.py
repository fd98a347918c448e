"""The facts of a wait that did not come true: what an error carries, as text and as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.durations import format_duration
from pytest_kwait.engine.failure.evidence import Evidence
from pytest_kwait.engine.failure.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["WaitReport"]


@dataclass(frozen=True, slots=True)
class WaitReport:
    """The facts of a wait that did not come true.

    Args:
        subject: what the wait was about: `job ci-1/sleepers`.
        goal: what was awaited of it, as a verb: `have 3 pods Running`.
        failed: whether it can no longer come, as opposed to not in time.
        reason: the last verdict in words.
        limit: how long the wait could last, in seconds.
        elapsed: how long it lasted, in seconds.
        mode: `watch` or `poll`.
        seen: what was there at the end, in one line; may be empty.
        timeline: how the verdict changed.
        findings: what the cluster knows.
        last_error: the last error of the API; empty if there was none.
        errors: how many there were.
    """

    subject: str
    goal: str
    failed: bool
    reason: str
    limit: float
    elapsed: float
    mode: str
    seen: str = ""
    timeline: Timeline = field(default_factory=Timeline)
    findings: Evidence = field(default_factory=Evidence)
    last_error: str = ""
    errors: int = 0

    @property
    def headline(self) -> str:
        """What was awaited and the one reason it did not come, in one line."""
        reason = " ".join(self.reason.split()) or "nothing was seen"
        if self.failed:
            return f"{self.subject} can no longer {self.goal}: {reason}"
        limit = format_duration(self.limit)
        return f"{self.subject} did not {self.goal} within {limit}: {reason}"

    @property
    def evidence(self) -> Mapping[str, Any]:
        """The same facts as JSON values."""
        return {
            "subject": self.subject,
            "goal": self.goal,
            "outcome": "failed" if self.failed else "timeout",
            "reason": self.reason,
            "limit_seconds": self.limit,
            "elapsed_seconds": round(self.elapsed, 3),
            "mode": self.mode,
            "seen": self.seen,
            "timeline": [asdict(c) for c in (*self.timeline.first, *self.timeline.latest)],
            "timeline_left_out": self.timeline.left_out,
            **self.findings.as_json(),
            "last_api_error": self.last_error or None,
            "api_errors": self.errors,
        }

    def render(self) -> str:
        """Return the whole message."""
        from pytest_kwait.engine.failure.explanation import render_message

        return render_message(self)

    def redacted(self, change: Callable[[str], str]) -> WaitReport:
        """Return the same facts with every text changed."""
        return _change_texts(self, change)  # type: ignore[no-any-return]  # of the type it was given


def _change_texts(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, tuple):
        return tuple(_change_texts(part, change) for part in value)
    if isinstance(value, Timeline):
        return value.changed(change)
    if is_dataclass(value) and not isinstance(value, type):
        parts = {
            each.name: _change_texts(getattr(value, each.name), change) for each in fields(value)
        }
        return replace(value, **parts)
    return value
