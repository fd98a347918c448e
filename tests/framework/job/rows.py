"""Rows of the tables of verdicts on a Job and its pods."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.framework.sources import enter
from tests.objects import created_job

if TYPE_CHECKING:
    from pytest_kwait.engine.condition import Verdict


@dataclass
class Row:
    """A condition, and its verdict once it has seen a Job and pods.

    Args:
        job: the Job; None if there is none.
    """

    awaited: Any
    verdict: Verdict
    job: Any = field(default_factory=created_job)
    pods: list[Any] = field(default_factory=list)


def enter_job(awaited: Any, job: Any, pods: list[Any]) -> None:
    """List the Job and its pods for a condition."""
    if job is not None:
        enter(awaited, job)
        enter(awaited, *pods, position=1)
