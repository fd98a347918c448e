"""Base of the conditions on a controller of pods: the object, its pods, refused pods.

Pods are counted by owner, since a selector does not imply ownership. If a status does not report
a refused pod, the controller's events do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.conditions import get_phase
from pytest_kwait.apimachinery.validation import check_name, check_namespace
from pytest_kwait.client.resource import EVENTS, PODS
from pytest_kwait.engine.condition import EvidenceScope, Source
from pytest_kwait.engine.object_counter import ObjectCounter, ObjectState, TerminalState
from pytest_kwait.engine.single_object import SingleObject
from pytest_kwait.engine.verdicts import Failed, Pending
from pytest_kwait.framework.events import EventFields, last_timestamp_of
from pytest_kwait.framework.named_objects import controller_uid
from pytest_kwait.framework.pod.fields import is_finished, is_ready, is_terminating, phase_label
from pytest_kwait.framework.pod.list_conditions import SetPodFields
from pytest_kwait.framework.terminal_states.pods import detect_owned_pod_failure
from pytest_kwait.framework.terminal_states.workloads import detect_creation_failure
from pytest_kwait.framework.workload.fields import describe_generation_lag, selector_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from pytest_kwait.client.resource import Resource
    from pytest_kwait.engine.condition import ObjectReference

__all__ = ["ALIVE", "OwnedPods", "RefusedPods", "WorkloadCondition", "judge_stuck_pods"]

ALIVE = "alive"
"""The classification of pods that have not ended and are not being deleted."""


class OwnedPods:
    """Store of pods by owner.

    A selector does not imply ownership: it may match pods of an earlier workload of the same name,
    and matches the pods of all ReplicaSets of a Deployment.

    Args:
        owner: returns the key of a pod's owner; by default the UID of its controller.
    """

    def __init__(self, owner: Callable[[dict[str, Any]], str] = controller_uid) -> None:
        self._owner = owner
        self._tallies: dict[str, ObjectCounter] = {}
        self._owner_of: dict[str, str] = {}

    def of(self, owner: str) -> ObjectCounter:
        """Return the tally of that owner's pods."""
        tally = self._tallies.get(owner)
        if tally is None:
            tally = self._tallies[owner] = ObjectCounter(_state)
        return tally

    def put(self, obj: dict[str, Any], raw: bytes, now: float) -> None:
        """Count a pod under its owner, which changes when it is adopted or released."""
        uid = obj["metadata"].get("uid") or obj["metadata"]["name"]
        owner, before = self._owner(obj), self._owner_of.get(uid)
        if before is not None and before != owner:
            self.of(before).drop(uid)
        self._owner_of[uid] = owner
        self.of(owner).put(obj, raw, now)

    def drop(self, uid: str) -> None:
        """Stop counting a pod; no-op if not counted."""
        owner = self._owner_of.pop(uid, None)
        if owner is not None:
            self.of(owner).drop(uid)

    def uids(self) -> Collection[str]:
        """Return the UIDs of the stored pods of all owners."""
        return self._owner_of.keys()


def _state(pod: dict[str, Any], before: TerminalState | None) -> ObjectState:
    if is_terminating(pod):
        return ObjectState("being deleted")
    if is_finished(pod):
        # Its controller replaces it.
        return ObjectState(phase_label(pod))
    if get_phase(pod) == "Running" and is_ready(pod):
        return ObjectState("ready", (ALIVE,))
    label = phase_label(pod)
    label = "Running, not ready" if label == "Running" else label
    return ObjectState(label, (ALIVE,), doom=detect_owned_pod_failure(pod, before))


@dataclass(eq=False, slots=True)
class _ObjectEventSource(Source):
    """Source of the events about one object, by its UID."""

    uid: str = ""

    @property
    def field_selector(self) -> str | None:
        """The field selector for these events."""
        return f"involvedObject.uid={self.uid}"

    def __str__(self) -> str:
        return f"events of {self.uid} in {self.namespace}"


class RefusedPods:
    """Store of the pods that a controller was refused.

    A refusal counts while it is the latest fact: no pod was created after it, and no pod is
    younger. Frequent events are dropped at the source, so both events and pods are checked.

    Args:
        uid: its UID.
    """

    def __init__(self, namespace: str, uid: str) -> None:
        self._attempts: dict[str, dict[str, Any]] = {}
        self.source = _ObjectEventSource(EVENTS, namespace, self, fields=EventFields, uid=uid)
        self._youngest = ""

    def made(self, pod: dict[str, Any]) -> None:
        """Record a pod that was created."""
        self._youngest = max(self._youngest, pod["metadata"].get("creationTimestamp") or "")

    def put(self, obj: dict[str, Any], raw: bytes, now: float) -> None:
        """Store an event, if it is about the creation of a pod."""
        if obj.get("reason") in ("FailedCreate", "SuccessfulCreate"):
            uid = obj["metadata"].get("uid") or obj["metadata"]["name"]
            self._attempts.pop(uid, None)
            self._attempts[uid] = obj

    def drop(self, uid: str) -> None:
        """Remove an event that has expired, which happens after an hour."""
        self._attempts.pop(uid, None)

    def uids(self) -> Collection[str]:
        """Return the UIDs of the stored events."""
        return self._attempts.keys()

    def deferred_verdict(self) -> Failed | None:
        """Return the verdict if the last pod was refused; else None."""
        # Within one second the last one listed, which is the latest.
        last = max(reversed(self._attempts.values()), key=last_timestamp_of, default=None)
        if last is None or last.get("reason") != "FailedCreate":
            return None
        if last_timestamp_of(last) < self._youngest:
            return None
        doom = detect_creation_failure(last.get("message") or "")
        return Failed(doom.reason, doom.patience)


def judge_stuck_pods(tally: ObjectCounter, wanted: int, spare: int = 0) -> Failed | None:
    """Return the verdict if too many pods are stuck; None while enough may come.

    Args:
        tally: the pods, of which `wanted` will remain; surplus pods can be spared, since a
            controller removes pods that are not ready first.
        wanted: the desired number.
        spare: the number of them that need not come.
    """
    if wanted < 1:
        return None
    stuck = tally.nth_terminal(max(tally.count(ALIVE) - wanted, 0) + spare + 1)
    if stuck is None or stuck[0].state.doom is None:
        return None
    entry, patience, since = stuck
    others = tally.doomed - 1
    more = f" (and {others} more {'pod' if others == 1 else 'pods'})" if others else ""
    return Failed(f"pod {entry.name}{more}: {stuck[0].state.doom.reason}", patience, since)


class WorkloadCondition:
    """Base of the conditions on one named controller of pods, and its dependents.

    Args:
        goal: the awaited state, as a verb phrase.
        fields: a TypedDict of the fields that verdicts read; None for the whole object.
        pods: the store of its pods; None if they do not matter.
        what: the argument that held the name, for messages.
    """

    runs_user_code = False

    def __init__(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        goal: str,
        fields: type[Any] | None,
        pods: OwnedPods | None,
        what: str = "name",
    ) -> None:
        self.namespace = check_namespace(namespace)
        self.workload = SingleObject(resource, check_name(what, name))
        self.goal = goal
        self.pods = pods
        self._first = Source(resource, namespace, self.workload, name, fields=fields)
        self._sources: tuple[Source, ...] = (self._first,)
        self._selected_for = ""
        self._selector: str | None = None
        self.refusals = RefusedPods(namespace, "")

    @property
    def subject(self) -> str:
        """The object."""
        return f"{self.workload.noun} {self.namespace}/{self.workload.name}"

    def sources(self) -> Sequence[Source]:
        """Return the object, and its dependents once its selector and UID are known."""
        current = self.workload.current
        uid = current["metadata"].get("uid") or "" if current is not None else ""
        if uid and uid != self._selected_for:
            # The selectors of these kinds are immutable.
            self._selected_for = uid
            self.refusals = RefusedPods(self.namespace, uid)
            self._selector = selector_of(self.workload.resource, self.workload.spec)
            if self._selector is not None:
                self._sources = (self._first, *self.owned(self._selector))
        return self._sources

    def owned(self, selector: str) -> Sequence[Source]:
        """Return the sources of its dependents."""
        if self.pods is None:
            return ()
        return (Source(PODS, self.namespace, self.pods, selector=selector, fields=SetPodFields),)

    def stale_status_verdict(self) -> Pending | Failed | None:
        """Return the verdict while its status is of an older generation; else None."""
        absent = self.workload.missing_verdict()
        if absent is not None or self.workload.current is None:
            return absent
        lag = describe_generation_lag(self.workload.current)
        return (self.workload.ending() or Pending(lag)) if lag else None

    def deferred_source(self) -> Source | None:
        """Return its events while pods are missing that it should create."""
        if self.stale_status_verdict() is not None or self.workload.ending() is not None:
            return None
        return self.refusals.source if self.has_missing_pods() else None

    def deferred_verdict(self) -> Failed | None:
        """Return the verdict if the last pod was refused."""
        return self.refusals.deferred_verdict()

    def has_missing_pods(self) -> bool:
        """Return whether awaited pods are missing; False if its status gives the reason."""
        return False

    @property
    def current(self) -> dict[str, Any]:
        """The present object; call this only while it exists."""
        return self.workload.current or {"metadata": {}}

    @property
    def tally(self) -> ObjectCounter | None:
        """The pods that decide; None if none do, or they are not known."""
        if self.pods is None or self.workload.current is None:
            return None
        return self.pods.of(next(iter(self.workload.uids())))

    def seen(self) -> str:
        """Return a summary of its pods, or that it exists."""
        if self.workload.current is None:
            return ""
        tally = self.tally
        return "it is there" if tally is None else f"pods: {tally.summary() or 'none'}"

    def result(self) -> dict[str, Any]:
        """Return the last object seen."""
        return self.workload.object()

    def scope(self) -> EvidenceScope:
        """Return the object, its intermediate objects, and its pods."""
        tally = self.tally
        return EvidenceScope(
            self.namespace,
            objects=(self.workload.reference(), *self.intermediate_objects()),
            pods=self._selector,
            suspects=tally.suspects() if tally is not None else (),
        )

    def intermediate_objects(self) -> tuple[ObjectReference, ...]:
        """Return the objects between it and its pods, which have events too."""
        return ()
