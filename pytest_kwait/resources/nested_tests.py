"""What is asked of, or done to, every test in a test that is made of others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_kwait.resources.held_tests import Held, NeverHeld
from pytest_kwait.resources.object_tests import AllOf, AnyOf, JsonPathValue, Negated, UserTest

if TYPE_CHECKING:
    from pytest_kwait.resources.object_tests import ObjectTest
    from pytest_kwait.resources.timers import Timers

__all__ = ["concealed", "is_user_code", "timed"]


def concealed(test: ObjectTest) -> ObjectTest:
    """Return the same test with no value in its messages: that of the data of a Secret."""
    if isinstance(test, AllOf | AnyOf):
        return type(test)(tuple(concealed(part) for part in test.parts))
    if isinstance(test, Held):
        return replace(test, test=concealed(test.test))
    if isinstance(test, NeverHeld):
        return NeverHeld(replace(test.held, test=concealed(test.held.test)))
    if isinstance(test, Negated) and isinstance(test.test, JsonPathValue):
        return Negated(replace(test.test, secret=True))
    return replace(test, secret=True) if isinstance(test, JsonPathValue) else test


def is_user_code(test: ObjectTest) -> bool:
    """Return whether a test runs code of the user, which belongs to the calling thread."""
    if isinstance(test, AllOf | AnyOf):
        return any(is_user_code(part) for part in test.parts)
    if isinstance(test, Held):
        return is_user_code(test.test)
    if isinstance(test, NeverHeld):
        return is_user_code(test.held)
    return isinstance(test.test if isinstance(test, Negated) else test, UserTest)


def timed(test: ObjectTest, timers: Timers) -> ObjectTest:
    """Return the same test with times of its own: it may be a part of many waits."""
    if isinstance(test, AllOf | AnyOf):
        return type(test)(tuple(timed(part, timers) for part in test.parts))
    if isinstance(test, Held):
        return replace(test, test=timed(test.test, timers)).started(timers)
    if isinstance(test, NeverHeld):
        inner = replace(test.held, test=timed(test.held.test, timers))
        return NeverHeld(inner.started(timers))
    return test
