"""What one object can be tested for: kubectl's condition grammar, and code of the user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_kwait.engine.verdicts import Failed, Met, Pending, Verdict
from pytest_kwait.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ConditionStatus", "Existence", "ObjectTest", "UserTest", "parse_test"]

Answer: TypeAlias = "bool | Verdict"

_FORMS = "use 'create', 'delete', 'condition=Type', 'condition=Type=Value' or a callable"


@dataclass(frozen=True, slots=True)
class Existence:
    """Whether it is there.

    Args:
        wanted: True for `create`, False for `delete`.
    """

    wanted: bool

    @property
    def goal(self) -> str:
        """As a verb."""
        return "get created" if self.wanted else "get deleted"


@dataclass(frozen=True, slots=True)
class ConditionStatus:
    """Whether its status has a condition of a type with a value.

    Args:
        kind: the condition's type; in any case.
        value: the condition's status; in any case.
    """

    kind: str
    value: str = "True"

    @property
    def goal(self) -> str:
        """As a verb."""
        return f"have condition {self.kind}={self.value}"

    def judge(self, obj: dict[str, Any]) -> Verdict:
        """Judge by the first condition of the type that is up to date with the object.

        Source: kubectl pkg/cmd/wait/condition.go, checkCondition.
        """
        metadata, status = obj["metadata"], obj.get("status") or {}
        for condition in status.get("conditions") or ():
            kind, value = condition.get("type"), condition.get("status")
            if not isinstance(kind, str) or kind.lower() != self.kind.lower():
                continue
            generation = metadata.get("generation") or 0
            observed = condition.get("observedGeneration")
            if observed is None:
                observed = status.get("observedGeneration")
            if isinstance(observed, int) and observed < generation:
                return Pending(f"{kind} is of generation {observed}, not yet of {generation}")
            if str(value).lower() == self.value.lower():
                return Met()
            why = ": ".join(filter(None, (condition.get("reason"), condition.get("message"))))
            return Pending(f"{kind} is {value}{': ' if why else ''}{why}")
        return Pending(f"no condition {self.kind} yet")


@dataclass(frozen=True, slots=True)
class UserTest:
    """What a callable of the user says about an object, or about a list of objects.

    Args:
        call: the callable.
    """

    call: Callable[[Any], Answer]

    @property
    def name(self) -> str:
        """How messages name it."""
        return getattr(self.call, "__name__", type(self.call).__name__)

    @property
    def goal(self) -> str:
        """As a verb."""
        return f"satisfy {self.name}"

    def judge(self, subject: Any) -> Verdict:
        """Return what the callable says; what it raises comes through.

        Raises:
            InvalidArgument: it returned neither a bool nor a verdict.
        """
        answer = self.call(subject)
        if isinstance(answer, Met | Pending | Failed):
            return answer
        if not isinstance(answer, bool):
            raise InvalidArgument(
                f"what {self.name} returned", answer, "use True, False, Met, Pending or Failed"
            )
        return Met() if answer else Pending(f"{self.name} says False")


ObjectTest: TypeAlias = Existence | ConditionStatus | UserTest


def parse_test(condition: object) -> ObjectTest:
    """Return what a condition as users write it means.

    Raises:
        InvalidArgument: it is none.
    """
    if callable(condition):
        return UserTest(condition)
    if not isinstance(condition, str):
        raise InvalidArgument("condition", condition, _FORMS)
    if condition.lower() in ("create", "delete"):
        return Existence(condition.lower() == "create")
    form, _, rest = condition.partition("=")
    kind, equals, value = rest.partition("=")
    if form != "condition" or not kind or (equals and not value):
        raise InvalidArgument("condition", condition, _FORMS)
    return ConditionStatus(kind, value or "True")
