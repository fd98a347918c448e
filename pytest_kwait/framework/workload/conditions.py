"""Base of the conditions on a controller of pods: the object, its pods, refused pods.

Pods are counted by owner, since a selector does not imply ownership. If a status does not report
a refused pod, the controller's events do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.conditions import get_phase
from pytest_kwait.apimachinery.validation import check_name
from pytest_kwait.client.resource import EVENTS, PODS
from pytest_kwait.engine.condition import (
    EvidenceScope,
    Failed,
    ObjectSink,
    Pending,
    Source,
    TerminalState,
)
from pytest_kwait.engine.object_sinks import ObjectCounter, ObjectState
from pytest_kwait.engine.pod_fields import (
    is_finished,
    is_ready,
    is_terminating,
    phase_label,
    readiness_label,
)
from pytest_kwait.framework.events import EventFields, last_timestamp_of
from pytest_kwait.framework.named_objects import ObjectCondition, controller_uid
from pytest_kwait.framework.pod.list_conditions import SetPodFields
from pytest_kwait.framework.terminal_states.pods import detect_owned_pod_failure
from pytest_kwait.framework.terminal_states.workloads import detect_creation_failure
from pytest_kwait.framework.workload.fields import describe_generation_lag, selector_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from pytest_kwait.client.resource import Resource
    from pytest_kwait.engine.condition import ObjectReference

ALIVE = "alive"
"""The classification of pods that have not ended and are not being deleted."""
REMAINING = "remaining"
"""The classification of pods that have not ended, or are being deleted and not gone yet."""


class OwnedPods(ObjectSink):
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

    def remaining(self, is_owner: Callable[[str], bool]) -> int:
        """Return the number of pods of some owners that have not ended, or are not gone yet."""
        owned = (tally for owner, tally in self._tallies.items() if is_owner(owner))
        return sum(tally.count(REMAINING) for tally in owned)

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

    def has_creating(self) -> bool:
        """Return whether the containers of a pod are being created."""
        return any(tally.has_creating() for tally in self._tallies.values())

    def creating(self) -> Collection[str]:
        """Return the UIDs of these pods."""
        return {uid for tally in self._tallies.values() for uid in tally.creating()}

    def mark_creating(
        self, terminal: Mapping[str, TerminalState], since: Mapping[str, float]
    ) -> None:
        """Set the terminal states of these pods for the next verdict; none for the others."""
        for tally in self._tallies.values():
            tally.mark_creating(terminal, since)

    def uids(self) -> Collection[str]:
        """Return the UIDs of the stored pods of all owners."""
        return self._owner_of.keys()


def _state(pod: dict[str, Any], before: TerminalState | None) -> ObjectState:
    if is_terminating(pod):
        return ObjectState("being deleted", (REMAINING,))
    if is_finished(pod):
        # Its controller replaces it.
        return ObjectState(phase_label(pod))
    if get_phase(pod) == "Running" and is_ready(pod):
        return ObjectState("ready", (ALIVE, REMAINING))
    label = readiness_label(pod)
    return ObjectState(
        label, (ALIVE, REMAINING), terminal_state=detect_owned_pod_failure(pod, before)
    )


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


class RefusedPods(ObjectSink):
    """Store of the pods that a controller was refused.

    A refusal counts while it is the latest fact: no pod was created after it, and no pod is
    younger. Frequent events are dropped at the source, so both events and pods are checked.
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
        terminal = detect_creation_failure(last.get("message") or "")
        return Failed(terminal.reason, terminal.grace)


def detect_stuck_pods(tally: ObjectCounter, target_count: int, spare: int = 0) -> Failed | None:
    """Return the verdict if too many pods are stuck; None while enough may come.

    Args:
        tally: the pods, of which `target_count` will remain; surplus pods can be spared, since a
            controller removes pods that are not ready first.
        target_count: the desired number.
        spare: the number of them that need not come.
    """
    if target_count < 1:
        return None
    return tally.terminal_verdict(max(tally.count(ALIVE) - target_count, 0) + spare + 1)


class WorkloadCondition(ObjectCondition):
    """Base of the conditions on one named controller of pods, and its dependents.

    Args:
        goal: the awaited state, as a verb phrase.
        fields: a TypedDict of the fields that verdicts read; None for the whole object.
        pods: the store of its pods; None if they do not matter.
        what: the argument that held the name, for messages.
    """

    namespace: str

    goal: str

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
        super().__init__(resource, namespace, check_name(what, name), fields)
        self.goal = goal
        self.pods = pods
        self._selected_for = ""
        self._selector: str | None = None
        self.refusals = RefusedPods(namespace, "")

    def sources(self) -> Sequence[Source]:
        """Return the object, and its dependents once its selector and UID are known."""
        current = self.object.current
        uid = current["metadata"].get("uid") or "" if current is not None else ""
        if uid and uid != self._selected_for:
            # The selectors of these kinds are immutable.
            self._selected_for = uid
            self.refusals = RefusedPods(self.namespace, uid)
            self._selector = selector_of(self.object.resource, self.object.spec)
            if self._selector is not None:
                self._sources = (self._sources[0], *self.owned(self._selector))
        return self._sources

    def owned(self, selector: str) -> Sequence[Source]:
        """Return the sources of its dependents."""
        if self.pods is None:
            return ()
        return (Source(PODS, self.namespace, self.pods, selector=selector, fields=SetPodFields),)

    def stale_status_verdict(self) -> Pending | Failed | None:
        """Return the verdict while its status is of an older generation; else None."""
        absent = self.object.missing_verdict()
        if absent is not None or self.object.current is None:
            return absent
        lag = describe_generation_lag(self.object.current)
        return (self.object.ending() or Pending(lag)) if lag else None

    def deferred_source(self) -> Source | None:
        """Return its events while pods are missing that it should create."""
        if self.stale_status_verdict() is not None or self.object.ending() is not None:
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
        return self.object.current or {"metadata": {}}

    @property
    def tally(self) -> ObjectCounter | None:
        """The pods that decide; None if none do, or they are not known."""
        if self.pods is None or self.object.current is None:
            return None
        return self.pods.of(next(iter(self.object.uids())))

    def summarize(self) -> str:
        """Return a summary of its pods, or that it exists."""
        if self.object.current is None:
            return ""
        tally = self.tally
        return "it is there" if tally is None else f"pods: {tally.summary() or 'none'}"

    def scope(self) -> EvidenceScope:
        """Return the object, its intermediate objects, and its pods."""
        tally = self.tally
        return EvidenceScope(
            self.namespace,
            objects=(self.object.reference(), *self.intermediate_objects()),
            pods=self._selector,
            suspects=tally.suspects() if tally is not None else (),
        )

    def intermediate_objects(self) -> tuple[ObjectReference, ...]:
        """Return the objects between it and its pods, which have events too."""
        return ()
