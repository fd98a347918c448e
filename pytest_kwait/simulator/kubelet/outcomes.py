"""What an action of the kubelet in or towards a container came to: probes and lifecycle hooks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["HandlerResult", "ResultKind"]


class ResultKind(Enum):
    """How it went; `ERROR` where it could not even be tried, which a probe does not count."""

    SUCCESS = "success"
    WARNING = "warning"
    FAILURE = "failure"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class HandlerResult:
    """A verdict and what is told of it.

    Args:
        verdict: how it went.
        text: why, in the kubelet's words; what a command has written.
        output: what a command has written, where that is told apart.
    """

    verdict: ResultKind
    text: str = ""
    output: str = ""

    @property
    def good(self) -> bool:
        """Whether it counts as a success."""
        return self.verdict in (ResultKind.SUCCESS, ResultKind.WARNING)
