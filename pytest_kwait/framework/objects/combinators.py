"""Combinators of conditions for `wait_for`: all, any, not, stable, consistently."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_kwait.apimachinery.durations import Duration, to_seconds
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

    from pytest_kwait.engine.verdicts import Verdict

__all__ = ["HeldPredicate", "all_of", "any_of", "consistently", "not_", "stable_for"]

ConditionInput: TypeAlias = "str | Callable[[Any], bool | Verdict] | ObjectPredicate"


def all_of(*conditions: ConditionInput) -> ObjectPredicate:
    """Return the condition that holds while all of these do, of one and the same object.

    Args:
        *conditions: at least one, each as for `wait_for`. A callable is given one object, with a
            selector too, and a time (`stable_for`, `consistently`) is each object's own.

    Raises:
        InvalidArgument: there is none, or one that cannot be meant.
    """
    return AllOf(_parse_all("all_of", conditions))


def any_of(*conditions: ConditionInput) -> ObjectPredicate:
    """Return the condition that holds while at least one of these does.

    Args:
        *conditions: at least one, each as for `wait_for`. A callable is given one object, with a
            selector too, and a time (`stable_for`, `consistently`) is each object's own.

    Raises:
        InvalidArgument: there is none, or one that cannot be meant.
    """
    return AnyOf(_parse_all("any_of", conditions))


def not_(condition: ConditionInput) -> ObjectPredicate:
    """Return the condition that holds while this one does not, of an object that is there.

    An object that is not there satisfies neither a condition nor its opposite, and a status of an
    older generation neither: `not_("create")` is `delete`. The opposite of `stable_for` holds while
    the condition has not held for so long; that of `consistently` from its first break on, and
    can no longer come once there was none in all of the time.

    Args:
        condition: as for `wait_for`.

    Raises:
        InvalidArgument: one that cannot be meant.
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
    """Return the condition that this one has held for a time without a break.

    A break starts the time anew. Outermost it is the wait's option `stable_for`; as a part of
    another condition it is a time of its own, of each object: `all_of(stable_for("2s", a), b)`
    holds while `b` does and `a` has for two seconds.

    Args:
        duration: for how long; above zero.
        condition: as for `wait_for`.

    Raises:
        InvalidArgument: one of them cannot be meant.
    """
    seconds = to_seconds(duration, what="stable_for", allow_zero=False)
    return HeldPredicate(parse_predicate(condition), seconds, from_now=False)


def consistently(duration: Duration, condition: ConditionInput) -> HeldPredicate:
    """Return the condition that this one holds from the first look on, for all of a time.

    Where it does not hold at the first look, or at any later one, it can no longer come: outermost
    the wait fails at once. As a part of another condition it holds from the end of the time on,
    whatever comes then; the first look is each object's own.

    Args:
        duration: for how long; above zero.
        condition: as for `wait_for`.

    Raises:
        InvalidArgument: one of them cannot be meant.
    """
    seconds = to_seconds(duration, what="consistently", allow_zero=False)
    return HeldPredicate(parse_predicate(condition), seconds, from_now=True)


def _parse_all(what: str, conditions: tuple[ConditionInput, ...]) -> tuple[ObjectPredicate, ...]:
    if not conditions:
        raise InvalidArgument(what, conditions, "name at least one condition")
    return tuple(parse_predicate(condition) for condition in conditions)
