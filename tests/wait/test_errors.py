"""Upstream's error_test.go: wrapping in Go is `raise ... from` here."""

from __future__ import annotations

import pytest

from pytest_kwait import wait
from pytest_kwait.errors import KwaitError, WaitTimeout


def wrapped(error: BaseException) -> Exception:
    wrapper = RuntimeError(f"wrapped: {error}")
    wrapper.__cause__ = error
    return wrapper


def mentioned(error: BaseException) -> Exception:
    """An error that happened while `error` was handled, but is not about it."""
    wrapper = RuntimeError(f"wrapped: {error}")
    wrapper.__context__ = error
    return wrapper


UNKNOWN = RuntimeError("unknown")


@pytest.mark.parametrize(
    ("err", "want"),
    [
        (wait.ErrWaitTimeout(), True),
        (wait.Canceled(), True),
        (wait.DeadlineExceeded(), True),
        (wrapped(wait.ErrWaitTimeout()), True),
        (wrapped(wait.Canceled()), True),
        (wrapped(wait.DeadlineExceeded()), True),
        (wait.error_interrupted(None), True),
        (wait.error_interrupted(UNKNOWN), True),
        (wait.error_interrupted(wait.Canceled()), True),
        (wait.error_interrupted(wait.ErrWaitTimeout()), True),
        (None, False),
        (RuntimeError("not a cancellation"), False),
        (mentioned(wait.ErrWaitTimeout()), False),
        (mentioned(wait.Canceled()), False),
        (mentioned(wait.DeadlineExceeded()), False),
    ],
)
def test_interrupted(err: BaseException | None, want: bool) -> None:
    assert wait.interrupted(err) is want


def test_interrupted_ends_on_a_ring_of_causes() -> None:
    first, second = RuntimeError("a"), RuntimeError("b")
    first.__cause__, second.__cause__ = second, first
    assert wait.interrupted(first) is False


def test_an_interruption_is_never_wrapped_twice() -> None:
    once = wait.error_interrupted(UNKNOWN)
    assert wait.error_interrupted(once) is once
    assert isinstance(once, wait.ErrWaitTimeout)
    assert once.__cause__ is UNKNOWN
    assert str(once) == "unknown"
    assert wait.interrupted(once)
    assert not wait.interrupted(UNKNOWN)


def test_texts_are_upstreams() -> None:
    assert str(wait.error_interrupted()) == "timed out waiting for the condition"
    assert str(wait.ErrWaitTimeout()) == "timed out waiting for the condition"
    assert str(wait.Canceled()) == "context canceled"
    assert str(wait.DeadlineExceeded()) == "context deadline exceeded"


def test_base_classes_of_the_errors() -> None:
    for timeout in (wait.ErrWaitTimeout, wait.DeadlineExceeded):
        assert issubclass(timeout, WaitTimeout)
        assert issubclass(timeout, TimeoutError)
    assert issubclass(wait.Canceled, KwaitError)
    assert not issubclass(wait.Canceled, TimeoutError)
