"""One named pod that becomes what is awaited, or goes away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.client.resource import PODS
from pytest_kwait.client.responses import PartialObjectMetadata
from pytest_kwait.engine.condition import EvidenceScope, Source
from pytest_kwait.engine.options import check_name, check_namespace
from pytest_kwait.engine.single_object import SingleObject
from pytest_kwait.engine.verdicts import Failed, Met, Pending, Verdict
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.pod.fields import phase_label
from pytest_kwait.framework.predicates import UserPredicate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_kwait.engine.object_counter import TerminalState
    from pytest_kwait.framework.pod.conditions import PodGoal

__all__ = ["AbsentPod", "NamedPod", "PodGoalCondition", "UserPodCondition", "check_text_argument"]


class NamedPod:
    """What conditions on one pod share: which it is, where to look, what was seen.

    Args:
        namespace: where the pod is.
        pod: its name.
        uid: its UID; empty to take the first one seen for the one that is meant.
        fields: the fields to look at; None for all: one object costs little, and code of the user
            may want them.

    Raises:
        InvalidArgument: a name that cannot be one.
    """

    runs_user_code = False
    goal = ""

    def __init__(
        self, namespace: str, pod: str, uid: str = "", fields: type[Any] | None = None
    ) -> None:
        self.namespace = check_namespace(namespace)
        self.pod = SingleObject(PODS, check_name("pod", pod), uid)
        self._sources = (Source(PODS, namespace, self.pod, pod, fields=fields),)

    @property
    def subject(self) -> str:
        """The pod."""
        return f"pod {self.namespace}/{self.pod.name}"

    def sources(self) -> Sequence[Source]:
        """Return the pod."""
        return self._sources

    def seen(self) -> str:
        """Say what phase it is in."""
        return "" if self.pod.current is None else phase_label(self.pod.current)

    def result(self) -> dict[str, Any] | None:
        """Return the pod as it came last."""
        return self.pod.object()

    def scope(self) -> EvidenceScope:
        """Return the pod."""
        names = () if self.pod.current is None else (self.pod.name,)
        return EvidenceScope(self.namespace, objects=(self.pod.reference(),), pod_names=names)


class PodGoalCondition(NamedPod):
    """One pod becomes what a goal says.

    Args:
        namespace: where the pod is.
        pod: its name.
        goal: what is awaited.

    Raises:
        InvalidArgument: a name that cannot be one.
    """

    def __init__(self, namespace: str, pod: str, goal: PodGoal) -> None:
        super().__init__(namespace, pod)
        self.goal = goal.text
        self._goal = goal
        self._doom: TerminalState | None = None

    def verdict(self) -> Verdict:
        """Judge by the goal, and by what keeps the pod from it."""
        absent = self.pod.missing_verdict()
        if absent is not None:
            return absent
        current = self.pod.current or {}
        verdict = self._goal.judge(current)
        if not isinstance(verdict, Pending):
            return verdict
        if self._goal.alive and (ending := self.pod.ending()) is not None:
            return ending
        if self._goal.doom is not None:
            self._doom = self._goal.doom(current, self._doom)
            if self._doom is not None:
                return Failed(self._doom.reason, self._doom.patience)
        return verdict


class UserPodCondition(NamedPod):
    """One pod satisfies code of the user.

    Args:
        namespace: where the pod is.
        pod: its name.
        description: what is awaited of it, as it stands after `become`.
        condition: given the pod, returns a bool or a verdict.

    Raises:
        InvalidArgument: a name, a description or a callable that cannot be one.
    """

    runs_user_code = True

    def __init__(
        self, namespace: str, pod: str, description: str, condition: Callable[[Any], Any]
    ) -> None:
        super().__init__(namespace, pod)
        self.goal = f"become {check_text_argument('description', description)}"
        given: object = condition
        if not callable(given):
            raise InvalidArgument("condition", given, "use a callable that is given the pod")
        self._test = UserPredicate(condition)

    def verdict(self) -> Verdict:
        """Return what the user's code says of the pod."""
        absent = self.pod.missing_verdict()
        return self._test.judge(self.pod.object()) if absent is None else absent


class AbsentPod(NamedPod):
    """One pod is gone, whatever of the same name came after it.

    Args:
        namespace: where the pod is.
        pod: its name.
        uid: its UID; None to take the first one seen for the one that is meant.

    Raises:
        InvalidArgument: a name or a UID that cannot be one.
    """

    goal = "go away"

    def __init__(self, namespace: str, pod: str, uid: str | None) -> None:
        meant = "" if uid is None else check_text_argument("uid", uid)
        super().__init__(namespace, pod, meant, PartialObjectMetadata)

    def verdict(self) -> Verdict:
        """Judge by whether the pod of that UID is there."""
        if self.pod.missing_verdict() is not None:
            return Met()
        metadata = (self.pod.current or {})["metadata"]
        if not metadata.get("deletionTimestamp"):
            return Pending("still there, nobody is deleting it")
        finalizers = ", ".join(metadata.get("finalizers") or ())
        return Pending(f"being deleted{f', held by {finalizers}' if finalizers else ''}")

    def seen(self) -> str:
        """Say whether it is there."""
        return "" if self.pod.current is None else "it is there"

    def result(self) -> None:
        """Return nothing: there is none."""


def check_text_argument(what: str, value: object, *, empty: bool = False) -> str:
    """Return `value` as a text.

    Raises:
        InvalidArgument: it is none, or empty where it must not be.
    """
    if not isinstance(value, str) or not (value or empty):
        raise InvalidArgument(what, value, f"use a text{', or an empty one' if empty else ''}")
    return value
