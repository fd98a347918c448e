"""What is asked of, or done to, every test in a test that is made of others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_kwait.framework.held_tests import HeldPredicate, NotHeldPredicate
from pytest_kwait.framework.predicates import AllOf, AnyOf, JsonPathValue, Negated, UserPredicate

if TYPE_CHECKING:
    from pytest_kwait.framework.predicates import ObjectPredicate
    from pytest_kwait.framework.timers import Timers

__all__ = ["conceal_secret_values", "runs_user_code", "with_timers"]


def conceal_secret_values(test: ObjectPredicate) -> ObjectPredicate:
    """Return the same test with no value in its messages: that of the data of a Secret."""
    if isinstance(test, AllOf | AnyOf):
        return type(test)(tuple(conceal_secret_values(part) for part in test.parts))
    if isinstance(test, HeldPredicate):
        return replace(test, test=conceal_secret_values(test.test))
    if isinstance(test, NotHeldPredicate):
        return NotHeldPredicate(replace(test.held, test=conceal_secret_values(test.held.test)))
    if isinstance(test, Negated) and isinstance(test.test, JsonPathValue):
        return Negated(replace(test.test, secret=True))
    return replace(test, secret=True) if isinstance(test, JsonPathValue) else test


def runs_user_code(test: ObjectPredicate) -> bool:
    """Return whether a test runs code of the user, which belongs to the calling thread."""
    if isinstance(test, AllOf | AnyOf):
        return any(runs_user_code(part) for part in test.parts)
    if isinstance(test, HeldPredicate):
        return runs_user_code(test.test)
    if isinstance(test, NotHeldPredicate):
        return runs_user_code(test.held)
    return isinstance(test.test if isinstance(test, Negated) else test, UserPredicate)


def with_timers(test: ObjectPredicate, timers: Timers) -> ObjectPredicate:
    """Return the same test with times of its own: it may be a part of many waits."""
    if isinstance(test, AllOf | AnyOf):
        return type(test)(tuple(with_timers(part, timers) for part in test.parts))
    if isinstance(test, HeldPredicate):
        return replace(test, test=with_timers(test.test, timers)).started(timers)
    if isinstance(test, NotHeldPredicate):
        inner = replace(test.held, test=with_timers(test.held.test, timers))
        return NotHeldPredicate(inner.started(timers))
    return test
