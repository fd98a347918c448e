"""One fixture per wait; the catalogue of waits says what each of them takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.resources.catalogue import WAITS

if TYPE_CHECKING:
    from pytest_kwait.suite.bound_wait import BoundWait

__all__ = ["WAIT_NAMES"]


def bound(name: str) -> Any:
    """Return a fixture that gives a wait bound to the test's cluster, namespace and settings."""
    wait = WAITS[name]

    def fixture(request: pytest.FixtureRequest) -> BoundWait:
        from pytest_kwait.plugin.fixtures import bind

        return bind(wait, request)

    fixture.__doc__ = f"Wait for {wait.summary}: {name}({wait.usage})."
    return pytest.fixture(name=name)(fixture)


wait_for = bound("wait_for")
wait_for_cache_sync = bound("wait_for_cache_sync")
wait_for_job_complete = bound("wait_for_job_complete")
wait_for_job_failed = bound("wait_for_job_failed")
wait_for_job_finish = bound("wait_for_job_finish")
wait_for_job_pods_running = bound("wait_for_job_pods_running")
wait_for_job_pods_succeeded = bound("wait_for_job_pods_succeeded")
wait_for_pods_on_minions = bound("wait_for_pods_on_minions")

WAIT_NAMES = tuple(WAITS)
"""The names of all waits: of functions, fixtures and markers alike."""
