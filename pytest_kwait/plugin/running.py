"""The test that runs now, and its own limit: waits end before it, which would take evidence away.

Shared benches and clients look settings and limits up by it. Registered from the beginning: a limit
is set before it is known that the test will wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_kwait.clock import Deadline
    from pytest_kwait.suite.bound_wait import Allowance

__all__ = ["allowance_of", "near_limit", "running_item"]

_item_key = pytest.StashKey[pytest.Item]()
_deadline_key = pytest.StashKey[tuple["Deadline", float]]()
_near_key = pytest.StashKey[tuple["Deadline", float]]()

_RESERVE = 10.0
"""Seconds of a test's limit that are kept for evidence and teardown."""

_RESERVED_PART = 0.2
"""The part of a short limit that is kept instead."""


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Note the test from before its setup until after its teardown."""
    item.config.stash[_item_key] = item
    try:
        return (yield)
    finally:
        del item.config.stash[_item_key]


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> None:
    """Note when pytest-timeout will end the test; the timer itself is left to it."""
    from pytest_kwait.clock import Deadline

    deadline = Deadline.after(settings.timeout)
    item.stash[_deadline_key] = (deadline, settings.timeout)
    near = Deadline(deadline.at - _reserve(settings.timeout), deadline.clock)
    item.stash[_near_key] = (near, settings.timeout)


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_timeout_cancel_timer(item: pytest.Item) -> None:
    """Forget the limit, so that it holds no longer than pytest-timeout's own timer."""
    # Also called with nodes that are no tests and never had a timer.
    if _deadline_key in item.stash:
        del item.stash[_deadline_key]
        del item.stash[_near_key]


def running_item(config: pytest.Config) -> pytest.Item | None:
    """Return the test that runs now; None between tests."""
    return config.stash.get(_item_key, None)


def allowance_of(item: pytest.Item | None) -> Allowance | None:
    """Return what a test's limit leaves to a wait that starts now; None without a limit."""
    if item is None or _deadline_key not in item.stash:
        return None
    from pytest_kwait.suite.bound_wait import Allowance
    from pytest_kwait.wait.durations import format_duration

    deadline, limit = item.stash[_deadline_key]
    return Allowance(
        max(deadline.remaining - _reserve(limit), 0.0),
        f"the test's own timeout of {format_duration(limit)} (pytest-timeout)",
    )


def near_limit(item: pytest.Item | None) -> tuple[Deadline, float] | None:
    """Return from when on a test's limit counts as near, and the limit in seconds; None without.

    Waits bound to the test are over by then. The moment is the same object as long as the limit
    is the same.
    """
    return None if item is None else item.stash.get(_near_key, None)


def _reserve(limit: float) -> float:
    return min(_RESERVE, limit * _RESERVED_PART)
