"""Combinators of conditions for `wait_for`: all, any, not, stable, consistently."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_kwait.apimachinery.times import Duration, to_seconds
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.predicates import (
    AllOf,
    AnyOf,
    Existence,
    HeldPredicate,
    Negated,
    NotHeldPredicate,
    ObjectPredicate,
    parse_predicate,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.engine.condition import Verdict

ConditionInput: TypeAlias = "str | Callable[[Any], bool | Verdict] | ObjectPredicate"


def all_of(*conditions: ConditionInput) -> ObjectPredicate:
    """Return the condition that holds while all given conditions hold for the same object.

    Args:
        *conditions: at least one, each as for `wait_for`. A callable receives one object even with
            a selector; durations (`stable_for`, `consistently`) are measured per object.

    Raises:
        InvalidArgument: there is none, or one is invalid.
    """
    return AllOf(_parse_all("all_of", conditions))


def any_of(*conditions: ConditionInput) -> ObjectPredicate:
    """Return the condition that holds while at least one given condition holds.

    Args:
        *conditions: at least one, each as for `wait_for`. A callable receives one object even with
            a selector; durations (`stable_for`, `consistently`) are measured per object.

    Raises:
        InvalidArgument: there is none, or one is invalid.
    """
    return AnyOf(_parse_all("any_of", conditions))


def not_(condition: ConditionInput) -> ObjectPredicate:
    """Return the condition that holds while an existing object does not satisfy the given one.

    A missing object satisfies neither a condition nor its negation, and neither does a status of an
    older generation; `not_("create")` is `delete`. The negation of `stable_for` holds while the
    condition has not held for the duration. The negation of `consistently` holds from the first
    break on, and can no longer hold after a duration without a break.

    Args:
        condition: as for `wait_for`.

    Raises:
        InvalidArgument: the condition is invalid.
    """
    test = parse_predicate(condition)
    if isinstance(test, Negated):
        return test.test
    if isinstance(test, Existence):
        return Existence(not test.wanted)
    if isinstance(test, NotHeldPredicate):
        return test.held
    if isinstance(test, HeldPredicate):
        return NotHeldPredicate(test)
    if isinstance(test, AllOf):
        return AnyOf(tuple(not_(part) for part in test.parts))
    if isinstance(test, AnyOf):
        return AllOf(tuple(not_(part) for part in test.parts))
    return Negated(test)


def stable_for(duration: Duration, condition: ConditionInput) -> HeldPredicate:
    """Return the condition that the given one has held for a duration without a break.

    A break restarts the timer. Outermost it equals the wait's option `stable_for`. As a part of
    another condition each object has its own timer: `all_of(stable_for("2s", a), b)` holds while
    `b` holds and `a` has held for two seconds.

    Args:
        duration: the required time; above zero.
        condition: as for `wait_for`.

    Raises:
        InvalidArgument: one of them is invalid.
    """
    seconds = to_seconds(duration, what="stable_for", allow_zero=False)
    return HeldPredicate(parse_predicate(condition), seconds, from_now=False)


def consistently(duration: Duration, condition: ConditionInput) -> HeldPredicate:
    """Return the condition that the given one holds throughout a duration, starting now.

    The first check at which it does not hold is final: outermost it fails the wait at once. As a
    part of another condition it holds from the end of the duration on, regardless of later changes;
    each object's duration starts at its own first check.

    Args:
        duration: the required time; above zero.
        condition: as for `wait_for`.

    Raises:
        InvalidArgument: one of them is invalid.
    """
    seconds = to_seconds(duration, what="consistently", allow_zero=False)
    return HeldPredicate(parse_predicate(condition), seconds, from_now=True)


def _parse_all(what: str, conditions: tuple[ConditionInput, ...]) -> tuple[ObjectPredicate, ...]:
    if not conditions:
        raise InvalidArgument(what, conditions, "name at least one condition")
    return tuple(parse_predicate(condition) for condition in conditions)
