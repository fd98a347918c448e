"""Conditions made of conditions, for `wait_for`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.resources.object_tests import (
    AllOf,
    AnyOf,
    Existence,
    Negated,
    ObjectTest,
    parse_test,
)
from pytest_kwait.wait.durations import Duration, to_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.engine.verdicts import Verdict

__all__ = ["Held", "all_of", "any_of", "consistently", "not_", "parse_condition", "stable_for"]

Given: TypeAlias = "str | Callable[[Any], bool | Verdict] | ObjectTest"


@dataclass(frozen=True, slots=True)
class Held:
    """A test that must hold for a time.

    Args:
        test: the test.
        seconds: for how long, without a break.
        from_now: whether the first break ends the wait, instead of starting the time anew.
    """

    test: ObjectTest
    seconds: float
    from_now: bool


def all_of(*conditions: Given) -> ObjectTest:
    """Return the condition that holds while all of these do, of one and the same object.

    Args:
        *conditions: at least one, each as for `wait_for` but `stable_for` and `consistently`,
            which belong around the whole. A callable is given one object, with a selector too.

    Raises:
        InvalidArgument: there is none, or one that cannot be meant.
    """
    return AllOf(_parts("all_of", conditions))


def any_of(*conditions: Given) -> ObjectTest:
    """Return the condition that holds while at least one of these does.

    Args:
        *conditions: at least one, each as for `wait_for` but `stable_for` and `consistently`,
            which belong around the whole. A callable is given one object, with a selector too.

    Raises:
        InvalidArgument: there is none, or one that cannot be meant.
    """
    return AnyOf(_parts("any_of", conditions))


def not_(condition: Given) -> ObjectTest:
    """Return the condition that holds while this one does not, of an object that is there.

    An object that is not there satisfies neither a condition nor its opposite, and a status of an
    older generation neither: `not_("create")` is `delete`.

    Args:
        condition: as for `wait_for`.

    Raises:
        InvalidArgument: one that cannot be meant.
    """
    test = _part("not_", condition)
    if isinstance(test, Negated):
        return test.test
    if isinstance(test, Existence):
        return Existence(not test.wanted)
    if isinstance(test, AllOf):
        return AnyOf(tuple(not_(part) for part in test.parts))
    if isinstance(test, AnyOf):
        return AllOf(tuple(not_(part) for part in test.parts))
    return Negated(test)


def stable_for(duration: Duration, condition: Given) -> Held:
    """Return the condition that this one has held for a time without a break.

    A break starts the time anew; it is the wait's option `stable_for` at the condition.

    Args:
        duration: for how long; above zero.
        condition: as for `wait_for`.

    Raises:
        InvalidArgument: one of them cannot be meant.
    """
    seconds = to_seconds(duration, what="stable_for", allow_zero=False)
    return Held(_part("stable_for", condition), seconds, from_now=False)


def consistently(duration: Duration, condition: Given) -> Held:
    """Return the condition that this one holds from the first look on, for all of a time.

    Where it does not hold at the first look, or at any later one, the wait fails at once.

    Args:
        duration: for how long; above zero.
        condition: as for `wait_for`.

    Raises:
        InvalidArgument: one of them cannot be meant.
    """
    seconds = to_seconds(duration, what="consistently", allow_zero=False)
    return Held(_part("consistently", condition), seconds, from_now=True)


def parse_condition(condition: object) -> ObjectTest | Held:
    """Return what a condition as users write it means.

    Raises:
        InvalidArgument: it is none.
    """
    return condition if isinstance(condition, Held) else parse_test(condition)


def _parts(what: str, conditions: tuple[Given, ...]) -> tuple[ObjectTest, ...]:
    if not conditions:
        raise InvalidArgument(what, conditions, "name at least one condition")
    return tuple(_part(what, condition) for condition in conditions)


def _part(what: str, condition: object) -> ObjectTest:
    if isinstance(condition, Held):
        kind = "consistently" if condition.from_now else "stable_for"
        raise InvalidArgument(
            what, kind, "a time belongs around the whole condition: put it outermost"
        )
    return parse_test(condition)
