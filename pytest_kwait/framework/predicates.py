"""Predicates of one object: kubectl's condition grammar, user callables, combinations.

A predicate that must hold for a duration (`HeldPredicate`) is a description: each wait makes its
own copy, with its own timers, by `with_timers`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from pytest_kwait.apimachinery.json_path import JsonPath
from pytest_kwait.apimachinery.matching import Difference, check_tree, compare
from pytest_kwait.apimachinery.times import format_duration
from pytest_kwait.engine.condition import Failed, Grace, Met, Pending, Verdict
from pytest_kwait.engine.user_code import current_code
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.named_objects import describe_deletion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_kwait.framework.timers import HoldTimer, Timers

Answer: TypeAlias = "bool | Verdict"

Absence: TypeAlias = "Pending | Failed"

_VALID_FORMS = (
    "use 'create', 'delete', 'condition=Type', 'condition=Type=Value', 'jsonpath={.path}', "
    "'jsonpath={.path}=value', a callable or a combinator"
)
_STATUS_FIELD = re.compile(r"\$\['status'\]\['(\w+)'\]")
_EQUALS = re.compile(r"\[[^\]]*\]|==|(=)")
_NOUNS = {dict: "an object", list: "a list"}

_HIDDEN = "(hidden)"
"""The text for a value that messages must not show."""

_COUNTS = frozenset({"active", "failed", "ready", "replicas", "succeeded", "terminating"})
_COUNT = re.compile(r"(\w+Replicas|number\w+|\w+Number\w*)$")


@dataclass(frozen=True, slots=True)
class HeldPredicate:
    """An object satisfies a test for a duration.

    It is a description; each wait makes a copy with its own timer by `started`.

    Args:
        seconds: the duration without a break.
        from_now: whether the first break is final, instead of restarting the timer.
        timer: the timer per object; None in a description.
    """

    test: ObjectPredicate
    seconds: float
    from_now: bool
    timer: HoldTimer | None = field(default=None, compare=False, repr=False)

    @property
    def goal(self) -> str:
        """The goal of the test and the duration."""
        held = format_duration(self.seconds)
        return f"{self.test.goal} {f'from now for {held}' if self.from_now else f'for {held}'}"

    def evaluate(self, obj: dict[str, Any]) -> Verdict:
        """Decide by how long the object has satisfied the test."""
        return self._timed(self.test.evaluate(obj))

    def evaluate_absent(self, absence: Pending | Failed) -> Verdict:
        """Decide by how long the object's absence has satisfied the test."""
        return self._timed(self.test.evaluate_absent(absence))

    def started(self, timers: Timers) -> HeldPredicate:
        """Return a copy with a timer, for one wait."""
        return replace(self, timer=timers.timer(self.seconds, from_now=self.from_now))

    def _timed(self, verdict: Verdict) -> Verdict:
        if self.timer is None:
            raise AssertionError("a description holds for no time")
        return self.timer.evaluate(verdict)


@dataclass(frozen=True, slots=True)
class NotHeldPredicate:
    """An existing object does not satisfy a test for a duration.

    It is met while the test has not held for long enough. With `from_now` it is pending until the
    test has held throughout, which fails it, or has broken, which meets it.

    Args:
        held: the test with its duration.
    """

    held: HeldPredicate

    @property
    def goal(self) -> str:
        """The awaited state, as a verb."""
        return f"not {self.held.goal}"

    def evaluate(self, obj: dict[str, Any]) -> Verdict:
        """Return the opposite verdict."""
        verdict = self.held.evaluate(obj)
        if isinstance(verdict, Met):
            text = f"it does {self.held.goal}"
            return Failed(text) if self.held.from_now else Pending(text)
        open_still = self.held.from_now and isinstance(verdict, Pending)
        return verdict if open_still else Met()

    def evaluate_absent(self, absence: Pending | Failed) -> Verdict:
        """Return the verdict on absence unchanged; absence interrupts the duration."""
        self.held.evaluate_absent(absence)
        return absence


class ListPredicate(Protocol):
    """A test of a list of objects."""

    @property
    def goal(self) -> str:
        """The awaited state, as a verb."""
        ...

    def evaluate(self, subject: Any) -> Verdict:
        """Return the verdict on the list."""
        ...


class _PresentPredicate:
    """Base of tests that require an existing object."""

    __slots__ = ()

    def evaluate_absent(self, absence: Absence) -> Verdict:
        """Return the verdict on absence: pending before the first sight, else failed."""
        return absence


@dataclass(frozen=True, slots=True)
class Existence:
    """An object exists, or does not.

    Args:
        wanted: True for `create`, False for `delete`.
    """

    wanted: bool

    @property
    def goal(self) -> str:
        """The awaited state, as a verb."""
        return "get created" if self.wanted else "get deleted"

    def evaluate(self, obj: dict[str, Any]) -> Verdict:
        """Return the verdict on an existing object."""
        if self.wanted:
            return Met()
        return Pending(describe_deletion(obj))

    def evaluate_absent(self, absence: Absence) -> Verdict:
        """Return Met if deletion is awaited."""
        return absence if self.wanted else Met()


@dataclass(frozen=True, slots=True)
class ConditionStatus(_PresentPredicate):
    """The object's status has a condition of a type with a value.

    Args:
        kind: the condition's type, case-insensitive.
        value: the condition's status, case-insensitive.
    """

    kind: str
    value: str = "True"

    @property
    def goal(self) -> str:
        """The awaited state, as a verb."""
        return f"have condition {self.kind}={self.value}"

    def evaluate(self, obj: dict[str, Any]) -> Verdict:
        """Decide by the first condition of the type that is up to date.

        Source: kubectl pkg/cmd/wait/condition.go, checkCondition.
        """
        condition = self._first(obj)
        if condition is None:
            there = self._others(obj)
            other_text = f" (there is: {there})" if there else ""
            return Pending(f"no condition {self.kind} yet{other_text}")
        behind = self.generation_lag_verdict(obj)
        if behind is not None:
            return behind
        kind, value = condition.get("type"), condition.get("status")
        if str(value).lower() == self.value.lower():
            return Met()
        why = ": ".join(filter(None, (condition.get("reason"), condition.get("message"))))
        return Pending(f"{kind} is {value}{': ' if why else ''}{why}")

    def generation_lag_verdict(self, obj: dict[str, Any]) -> Pending | None:
        """Return the verdict on a condition of an older generation; else None."""
        condition, status = self._first(obj) or {}, obj.get("status") or {}
        generation = obj["metadata"].get("generation") or 0
        observed = condition.get("observedGeneration")
        if observed is None and isinstance(status, dict):
            observed = status.get("observedGeneration")
        if isinstance(observed, int) and observed < generation:
            kind = condition.get("type") or self.kind
            return Pending(f"{kind} is of generation {observed}, not yet of {generation}")
        return None

    def _others(self, obj: dict[str, Any]) -> str:
        """Return the types of the conditions that there are."""
        conditions = (obj.get("status") or {}).get("conditions")
        valid_conditions = [c for c in conditions or () if isinstance(c, dict) and c.get("type")]
        return ", ".join(str(condition["type"]) for condition in valid_conditions)

    def _first(self, obj: dict[str, Any]) -> dict[str, Any] | None:
        status = obj.get("status")
        conditions = status.get("conditions") if isinstance(status, dict) else None
        for condition in conditions if isinstance(conditions, list) else ():
            kind = condition.get("type") if isinstance(condition, dict) else None
            if isinstance(kind, str) and kind.lower() == self.kind.lower():
                condition_object: dict[str, Any] = condition
                return condition_object if isinstance(condition_object.get("status"), str) else None
        return None


@dataclass(frozen=True, slots=True)
class JsonPathValue(_PresentPredicate):
    """A path leads to a value, or to a specific one.

    Args:
        value: the value's text, case-sensitive; None for any value. Null is no value.
        secret: whether messages must not show values, neither the awaited nor the present one.
    """

    path: JsonPath
    value: str | None = None
    secret: bool = False

    @property
    def status_field(self) -> str:
        """The field of the status that the path leads to; empty for any other path."""
        match = _STATUS_FIELD.fullmatch(self.path.standard)
        return match[1] if match else ""

    @property
    def goal(self) -> str:
        """The awaited state, as a verb."""
        value = _HIDDEN if self.secret else repr(self.value)
        return f"have {self.path.text}{'' if self.value is None else f' equal to {value}'}"

    def evaluate(self, obj: dict[str, Any]) -> Verdict:
        """Decide by the one value that the path leads to.

        Source: kubectl pkg/cmd/wait/json.go, checkCondition.
        """
        values = self.path.find(obj)
        if len(values) > 1:
            return Failed(f"{self.path.text} leads to {len(values)} values: it must name one")
        if not values or values[0] is None:
            return Pending(f"{self.path.text} is not there yet")
        value = values[0]
        if self.value is None:
            return Met()
        if isinstance(value, dict | list):
            return Failed(
                f"{self.path.text} leads to {_NOUNS[type(value)]}, which no text equals: "
                "name a value in it"
            )
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if text.strip() == self.value.strip():
            return Met()
        if self.secret:
            return Pending(f"{self.path.text} is another value")
        return Pending(f"{self.path.text} is {text!r}, not {self.value!r}")


class ObjectMatch(_PresentPredicate):
    """An object has the fields of an assertion tree, with their values; made by `matches`.

    It equals each object that matches.

    Args:
        tree: the tree, a JSON object.
        place: its source for messages, for example `expected.yaml`.
        secret: whether messages must not show values.

    Raises:
        InvalidArgument: the tree has an invalid expression or nests too deeply.
    """

    __slots__ = ("_secret", "_tree", "place", "status_tests")

    def __init__(self, tree: dict[str, Any], place: str, *, secret: bool = False) -> None:
        try:
            check_tree(tree)
        except ValueError as error:
            raise InvalidArgument("matches", place, str(error)) from None
        self._tree = tree
        self._secret = secret
        self.place = place
        self.status_tests: tuple[ObjectPredicate, ...] = tuple(_status_tests(tree.get("status")))
        """The tests of conditions and values of the status that it contains."""

    def __repr__(self) -> str:
        return f"matches({self.place})"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, dict):
            return not compare(self._tree, other)
        return self is other if isinstance(other, ObjectMatch) else NotImplemented

    __hash__ = object.__hash__

    @property
    def goal(self) -> str:
        """The awaited state, as a verb."""
        return f"match {self.place}"

    def concealed(self) -> ObjectMatch:
        """Return a copy whose messages show no values."""
        return ObjectMatch(self._tree, "the given fields", secret=True)

    def differences(self, obj: dict[str, Any]) -> Sequence[Difference]:
        """Return the fields of an object that are not as awaited."""
        found = compare(self._tree, obj)
        return (
            [Difference(each.path, _HIDDEN, _HIDDEN) for each in found] if self._secret else found
        )

    def evaluate(self, obj: dict[str, Any]) -> Verdict:
        """Decide by the first difference; a status of an older generation is pending."""
        behind = self.generation_lag_verdict(obj)
        if behind is not None:
            return behind
        found = self.differences(obj)
        if not found:
            return Met()
        first, more = found[0], len(found) - 1
        text = f"{first.path or 'it'} is another value" if self._secret else str(first)
        others = "1 more difference" if more == 1 else f"{more} more differences"
        return Pending(f"{text} (and {others})" if more else text)

    def generation_lag_verdict(self, obj: dict[str, Any]) -> Pending | None:
        """Return the verdict on a status of an older generation, if one is awaited; else None."""
        if "status" not in self._tree:
            return None
        status, generation = obj.get("status"), obj["metadata"].get("generation") or 0
        observed = status.get("observedGeneration") if isinstance(status, dict) else None
        if isinstance(observed, int) and observed < generation:
            return Pending(f"the status is of generation {observed}, not yet of {generation}")
        return None


def _status_tests(status: Any) -> Iterator[ConditionStatus | JsonPathValue]:
    """Yield the tests of kubectl's grammar that a status of an assertion tree contains."""
    if not isinstance(status, dict):
        return
    for name, value in status.items():
        is_value = isinstance(value, str | int) and not str(value).startswith("(")
        if is_value and name.isidentifier():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            yield JsonPathValue(JsonPath(f"{{.status.{name}}}"), text)
    conditions = status.get("conditions")
    for condition in conditions if isinstance(conditions, list) else ():
        if isinstance(condition, dict):
            kind, value = condition.get("type"), condition.get("status")
            if isinstance(kind, str) and isinstance(value, str):
                yield ConditionStatus(kind, value)


def _missing_field_verdict(error: Exception) -> Pending | None:
    """Return the verdict on an error by a field that is not there yet; None for other errors."""
    if isinstance(error, KeyError) and error.args:
        key = error.args[0]
        is_count = isinstance(key, str) and (key in _COUNTS or _COUNT.match(key))
        why = "left out while 0" if is_count else "not there yet"
        return Pending(f"condition raised KeyError {key!r} ({why}; use .get)")
    of_none = isinstance(error, TypeError | AttributeError) and "NoneType" in str(error)
    if of_none or isinstance(error, IndexError):
        return Pending(f"condition raised {type(error).__name__}: {error} (not there yet?)")
    return None


@dataclass(frozen=True, slots=True)
class UserPredicate(_PresentPredicate):
    """A user's callable decides on an object, or on a list of objects."""

    call: Callable[[Any], Answer]

    @property
    def name(self) -> str:
        """The name of the callable in messages."""
        return getattr(self.call, "__name__", type(self.call).__name__)

    @property
    def goal(self) -> str:
        """The awaited state, as a verb."""
        return f"satisfy {self.name}"

    def ask(self, subject: Any) -> object:
        """Return the callable's answer; pending if it reads a field that is not there yet."""
        try:
            return current_code(self.call)(subject)
        except (LookupError, TypeError, AttributeError) as error:
            missing = _missing_field_verdict(error)
            if missing is None:
                raise
            return missing

    def evaluate(self, subject: Any) -> Verdict:
        """Return the callable's verdict; exceptions propagate, but for fields not there yet.

        Raises:
            InvalidArgument: it returned neither a bool nor a verdict.
        """
        answer = self.ask(subject)
        if isinstance(answer, Met | Pending | Failed):
            return answer
        if not isinstance(answer, bool):
            raise InvalidArgument(
                f"what {self.name} returned", answer, "use True, False, Met, Pending or Failed"
            )
        return Met() if answer else Pending(f"{self.name} says False")


@dataclass(frozen=True, slots=True)
class Negated(_PresentPredicate):
    """An existing object fails a test.

    Args:
        test: the test; no combination, none with a duration, not `create` or `delete`.
    """

    test: _Simple

    @property
    def goal(self) -> str:
        """The awaited state, as a verb."""
        return f"not {self.test.goal}"

    def evaluate(self, obj: dict[str, Any]) -> Verdict:
        """Return the opposite verdict; pending for a status of an older generation."""
        if isinstance(self.test, ConditionStatus | ObjectMatch):
            behind = self.test.generation_lag_verdict(obj)
            if behind is not None:
                return behind
        verdict = self.test.evaluate(obj)
        return Pending(f"it does {self.test.goal}") if isinstance(verdict, Met) else Met()


@dataclass(frozen=True, slots=True)
class AllOf:
    """An object satisfies every one of several tests.

    Args:
        parts: the tests.
    """

    parts: tuple[ObjectPredicate, ...]

    @property
    def goal(self) -> str:
        """The awaited state, as a verb."""
        return " and ".join(part.goal for part in self.parts)

    def evaluate(self, obj: dict[str, Any]) -> Verdict:
        """Return the worst verdict of the parts."""
        return self._all([part.evaluate(obj) for part in self.parts])

    def evaluate_absent(self, absence: Absence) -> Verdict:
        """Return the worst verdict of the parts on absence."""
        return self._all([part.evaluate_absent(absence) for part in self.parts])

    def _all(self, verdicts: list[Verdict]) -> Verdict:
        for verdict in verdicts:
            if isinstance(verdict, Failed):
                return verdict
        pending = [verdict for verdict in verdicts if isinstance(verdict, Pending)]
        text = "; ".join(dict.fromkeys(verdict.reason for verdict in pending))
        absent = any(verdict.absent for verdict in pending)
        return Pending(text, absent=absent) if pending else Met()


@dataclass(frozen=True, slots=True)
class AnyOf:
    """An object satisfies at least one of several tests.

    Args:
        parts: the tests.
    """

    parts: tuple[ObjectPredicate, ...]

    @property
    def goal(self) -> str:
        """The awaited state, as a verb."""
        return " or ".join(part.goal for part in self.parts)

    def evaluate(self, obj: dict[str, Any]) -> Verdict:
        """Return the best verdict of the parts."""
        return self._any([part.evaluate(obj) for part in self.parts])

    def evaluate_absent(self, absence: Absence) -> Verdict:
        """Return the best verdict of the parts on absence."""
        return self._any([part.evaluate_absent(absence) for part in self.parts])

    def _any(self, verdicts: list[Verdict]) -> Verdict:
        reasons = []
        for verdict in verdicts:
            if isinstance(verdict, Met):
                return verdict
            reasons.append(verdict.reason)
        text = "; ".join(dict.fromkeys(reasons))
        lost = [verdict for verdict in verdicts if isinstance(verdict, Failed)]
        if len(lost) < len(verdicts):
            pending = [verdict for verdict in verdicts if isinstance(verdict, Pending)]
            return Pending(text, absent=all(verdict.absent for verdict in pending))
        # The failure with the longest grace decides.
        order = list(Grace)
        return Failed(text, max((part.grace for part in lost), key=order.index))


_Simple: TypeAlias = ConditionStatus | JsonPathValue | UserPredicate | ObjectMatch

ObjectPredicate: TypeAlias = (
    Existence
    | ConditionStatus
    | JsonPathValue
    | UserPredicate
    | ObjectMatch
    | Negated
    | AllOf
    | AnyOf
    | HeldPredicate
    | NotHeldPredicate
)


def parse_predicate(condition: object) -> ObjectPredicate:
    """Return the predicate for a condition in any form that users write.

    Raises:
        InvalidArgument: the condition is invalid.
    """
    if isinstance(condition, ObjectPredicate):
        return condition
    if callable(condition):
        return UserPredicate(condition)
    if not isinstance(condition, str):
        raise InvalidArgument("condition", condition, _VALID_FORMS)
    if condition.lower() in ("create", "delete"):
        return Existence(condition.lower() == "create")
    form, _, rest = condition.partition("=")
    if form == "jsonpath":
        return _parse_path(condition, rest)
    kind, equals, value = rest.partition("=")
    if form != "condition" or not kind or (equals and not value):
        raise InvalidArgument("condition", condition, _VALID_FORMS)
    return ConditionStatus(kind, value or "True")


def _parse_path(condition: str, rest: str) -> JsonPathValue:
    """Return the text after `jsonpath=`, split at single `=` outside brackets.

    Source: kubectl pkg/cmd/wait/wait.go, splitJSONPathInput and processJSONPathInput.
    """
    cuts = [match.start() for match in _EQUALS.finditer(rest) if match.group(1)]
    if len(cuts) > 1:
        raise InvalidArgument("condition", condition, "one '=' may follow the path, before a value")
    if not cuts:
        return JsonPathValue(JsonPath(rest))
    value = rest[cuts[0] + 1 :].strip("'\"")
    if not value:
        raise InvalidArgument("condition", condition, "name a value after the '=', or leave it out")
    return JsonPathValue(JsonPath(rest[: cuts[0]]), value)


def conceal_secret_values(test: ObjectPredicate) -> ObjectPredicate:
    """Return a copy of a test on Secret data that hides values in messages."""
    if isinstance(test, AllOf | AnyOf):
        return type(test)(tuple(conceal_secret_values(part) for part in test.parts))
    if isinstance(test, HeldPredicate):
        return replace(test, test=conceal_secret_values(test.test))
    if isinstance(test, NotHeldPredicate):
        return NotHeldPredicate(replace(test.held, test=conceal_secret_values(test.held.test)))
    if isinstance(test, Negated):
        return Negated(_conceal(test.test))
    return _conceal(test) if isinstance(test, JsonPathValue | ObjectMatch) else test


def _conceal(test: _Simple) -> _Simple:
    if isinstance(test, ObjectMatch):
        return test.concealed()
    return replace(test, secret=True) if isinstance(test, JsonPathValue) else test


def list_differences(test: ObjectPredicate, obj: dict[str, Any]) -> list[Difference]:
    """Return the differences of an object from the assertion trees that a test awaits."""
    if isinstance(test, AllOf | AnyOf):
        return [each for part in test.parts for each in list_differences(part, obj)]
    if isinstance(test, HeldPredicate):
        return list_differences(test.test, obj)
    return list(test.differences(obj)) if isinstance(test, ObjectMatch) else []


def runs_user_code(test: ObjectPredicate) -> bool:
    """Return whether a test runs user code, which is abandoned at the limit."""
    if isinstance(test, AllOf | AnyOf):
        return any(runs_user_code(part) for part in test.parts)
    if isinstance(test, HeldPredicate):
        return runs_user_code(test.test)
    if isinstance(test, NotHeldPredicate):
        return runs_user_code(test.held)
    return isinstance(test.test if isinstance(test, Negated) else test, UserPredicate)


def with_timers(test: ObjectPredicate, timers: Timers) -> ObjectPredicate:
    """Return a copy of a test with its own timers, for one wait."""
    if isinstance(test, AllOf | AnyOf):
        return type(test)(tuple(with_timers(part, timers) for part in test.parts))
    if isinstance(test, HeldPredicate):
        return replace(test, test=with_timers(test.test, timers)).started(timers)
    if isinstance(test, NotHeldPredicate):
        inner = replace(test.held, test=with_timers(test.held.test, timers))
        return NotHeldPredicate(inner.started(timers))
    return test
