"""Conditions on PersistentVolumeClaims: phase, bound, absence.

While a claim has no volume its events are watched too, since its status gives no reason. Once
it seems to have failed, the pods of the namespace are watched, to name those that wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from pytest_kwait.apimachinery.conditions import get_phase
from pytest_kwait.apimachinery.validation import check_namespace
from pytest_kwait.client.resource import EVENTS, PERSISTENT_VOLUME_CLAIMS, PODS
from pytest_kwait.client.responses import ObjectMeta, PartialObjectMetadata
from pytest_kwait.engine.condition import EvidenceScope, Source
from pytest_kwait.engine.verdicts import Failed, Met, Patience, Pending, Verdict
from pytest_kwait.framework.events import EventFields, EventSource, LastEventStore
from pytest_kwait.framework.named_objects import AbsentObject, NamedObjectStore
from pytest_kwait.framework.pod.fields import is_finished
from pytest_kwait.framework.terminal_states.claims import describe_claim, detect_claim_failure

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pytest_kwait.engine.object_counter import TerminalState
    from pytest_kwait.engine.single_object import SingleObject

__all__ = [
    "AbsentClaim",
    "AwaitedClaims",
    "ClaimFields",
    "ClaimUserStore",
    "ClaimsInPhase",
]


class _Spec(TypedDict, total=False):
    storageClassName: str | None
    volumeName: str | None


class _Status(TypedDict, total=False):
    phase: str | None


class ClaimFields(TypedDict, total=False):
    """The fields of a claim that waits read."""

    metadata: ObjectMeta
    spec: _Spec | None
    status: _Status | None


class _ClaimSource(TypedDict, total=False):
    claimName: str | None


class _Volume(TypedDict, total=False):
    name: str
    persistentVolumeClaim: _ClaimSource | None
    ephemeral: dict[str, Any] | None


class _PodSpec(TypedDict, total=False):
    volumes: list[_Volume] | None


class _PodStatus(TypedDict, total=False):
    phase: str | None


class _PodFields(TypedDict, total=False):
    metadata: ObjectMeta
    spec: _PodSpec | None
    status: _PodStatus | None


class ClaimUserStore:
    """The sink of pods that have not ended and use a claim."""

    def __init__(self) -> None:
        self._claims: dict[str, tuple[str, tuple[str, ...]]] = {}
        self._pods: dict[str, dict[str, None]] = {}

    def put(self, obj: dict[str, Any], raw: bytes, now: float) -> None:
        """Record the claims that a pod uses."""
        name = obj["metadata"]["name"]
        uid = obj["metadata"].get("uid") or name
        self.drop(uid)
        claims = () if is_finished(obj) else tuple(_claims_of(obj))
        self._claims[uid] = (name, claims)
        for claim in claims:
            self._pods.setdefault(claim, {})[name] = None

    def drop(self, uid: str) -> None:
        """Remove a pod."""
        name, claims = self._claims.pop(uid, ("", ()))
        for claim in claims:
            self._pods[claim].pop(name, None)

    def uids(self) -> Collection[str]:
        """Return the UIDs of the present pods."""
        return self._claims.keys()

    def of(self, claim: str) -> Sequence[str]:
        """Return the names of the pods that use a claim, sorted."""
        return sorted(self._pods.get(claim, ()))


def _claims_of(pod: dict[str, Any]) -> Sequence[str]:
    claims = []
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        named = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if volume.get("ephemeral") is not None:
            named = f"{pod['metadata']['name']}-{volume.get('name')}"
        if named:
            claims.append(str(named))
    return claims


class AwaitedClaims:
    """Base of conditions on claims: their sources, failures and evidence.

    Args:
        namespace: the namespace of the claims.
        claims: their UIDs by name; an empty UID for the first one seen.
        goal: the awaited state, as a verb.

    Raises:
        InvalidArgument: the namespace is invalid.
    """

    runs_user_code = False

    def __init__(self, namespace: str, claims: Mapping[str, str], goal: str) -> None:
        self.namespace = check_namespace(namespace)
        self.goal = goal
        self.claims = NamedObjectStore(PERSISTENT_VOLUME_CLAIMS, claims)
        self.events = LastEventStore()
        self.users = ClaimUserStore()
        one = next(iter(claims)) if len(claims) == 1 else None
        kind = PERSISTENT_VOLUME_CLAIMS.kind
        self._claim_source = Source(
            PERSISTENT_VOLUME_CLAIMS, namespace, self.claims, one, fields=ClaimFields
        )
        self._event_source = EventSource(
            EVENTS,
            namespace,
            self.events,
            fields=EventFields,
            optional=True,
            kind=kind,
            about=one or "",
        )
        self._pod_source = Source(PODS, namespace, self.users, fields=_PodFields, optional=True)
        self._sources: tuple[Source, ...] = (self._claim_source,)

    @property
    def subject(self) -> str:
        """The claims."""
        names = [sighting.name for sighting in self.claims.sightings]
        if len(names) == 1:
            return f"persistentvolumeclaim {self.namespace}/{names[0]}"
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        return f"persistentvolumeclaims {', '.join(names[:3])}{more} in {self.namespace}"

    def sources(self) -> Sequence[Source]:
        """Return the claims; with their events and pods if there is something to explain."""
        for source in self._more_sources():
            if source not in self._sources:
                self._sources = (*self._sources, source)
        return self._sources

    def _more_sources(self) -> Sequence[Source]:
        unbound = [each for each in self.claims.sightings if _describe_unbound(each)]
        if not unbound:
            return ()
        doomed = any(self._doom(each) is not None for each in unbound)
        return (self._event_source, self._pod_source) if doomed else (self._event_source,)

    def verdict(self) -> Verdict:
        """Decide by all claims: each must be in the awaited state."""
        pending, failed = self._judged()
        # The most certain failure decides.
        return min(failed, key=_patience_rank, default=None) or next(iter(pending), None) or Met()

    def _judged(self) -> tuple[list[Pending], list[Failed]]:
        """Return the unmet verdicts; with several claims each names its claim."""
        pending, failed = [], []
        for sighting in self.claims.sightings:
            verdict = self.judge(sighting)
            name = f"{sighting.name}: " if len(self.claims.sightings) > 1 else ""
            if isinstance(verdict, Pending):
                pending.append(Pending(f"{name}{verdict.reason}"))
            elif isinstance(verdict, Failed):
                failed.append(Failed(f"{name}{verdict.reason}", verdict.patience, verdict.since))
        return pending, failed

    def judge(self, claim: SingleObject) -> Verdict:
        """Return the verdict on one claim."""
        raise AssertionError("said by each condition")

    def bound(self, claim: SingleObject) -> Verdict:
        """Return the verdict on a claim that should be Bound."""
        absent = claim.missing_verdict()
        if absent is not None:
            return absent
        current = claim.current or {}
        if get_phase(current) == "Bound":
            return Met()
        doom = self._doom(claim)
        if doom is not None:
            return Failed(f"{doom.reason}{self._waiting(claim.name)}", doom.patience)
        return claim.ending() or Pending(describe_claim(current, self.events.last(claim.uid)))

    def _doom(self, claim: SingleObject) -> TerminalState | None:
        return detect_claim_failure(claim.current or {}, self.events.last(claim.uid))

    def _waiting(self, claim: str) -> str:
        pods = self.users.of(claim)
        more = f" and {len(pods) - 3} more" if len(pods) > 3 else ""
        if not pods:
            return ""
        verb = "pod {} waits" if len(pods) == 1 else "pods {} wait"
        return f" ({verb.format(', '.join(pods[:3]) + more)} for it)"

    def seen(self) -> str:
        """Return a summary of their phases."""
        there = [each for each in self.claims.sightings if each.current is not None]
        if len(self.claims.sightings) == 1:
            return "".join(get_phase(each.current or {}) for each in there)
        return ", ".join(f"{each.name} {get_phase(each.current or {})}" for each in there)

    def result(self) -> Any:
        """Return the claim, or the list of claims in the order of the argument."""
        claims = [each.object() for each in self.claims.sightings if each.current is not None]
        return claims if len(self.claims.sightings) > 1 else claims[0]

    def scope(self) -> EvidenceScope:
        """Return the claims, and the pods known to wait for them."""
        pods = [pod for each in self.claims.sightings for pod in self.users.of(each.name)]
        references = tuple(each.reference() for each in self.claims.sightings)
        return EvidenceScope(
            self.namespace, objects=references, pod_names=tuple(dict.fromkeys(pods))
        )


def _patience_rank(end: Failed) -> int:
    return (Patience.NONE, Patience.SHORT, Patience.LONG).index(end.patience)


def _describe_unbound(claim: SingleObject) -> bool:
    return claim.missing_verdict() is None and get_phase(claim.current or {}) != "Bound"


class ClaimsInPhase(AwaitedClaims):
    """Claims in a phase: all of them, or any.

    Args:
        namespace: the namespace of the claims.
        claims: their UIDs by name.
        phase: `Pending`, `Bound` or `Lost`.
        match_any: whether one of them is enough.
        several: whether a list of claims was given, so that the result is a list.
    """

    def __init__(
        self,
        namespace: str,
        claims: Mapping[str, str],
        phase: str,
        *,
        match_any: bool = False,
        several: bool = False,
    ) -> None:
        which = ""
        if len(claims) > 1:
            which = " (any)" if match_any else " (all)"
        super().__init__(namespace, claims, f"get to phase {phase}{which}")
        self._phase = phase
        self._match_any = match_any
        self._several = several

    def _more_sources(self) -> Sequence[Source]:
        return super()._more_sources() if self._phase == "Bound" else ()

    def verdict(self) -> Verdict:
        """Decide by all claims; where one is enough, fail only if all have failed."""
        if not self._match_any:
            return super().verdict()
        pending, failed = self._judged()
        if len(pending) + len(failed) < len(self.claims.sightings):
            return Met()
        # A failure that may pass keeps the others from being final.
        return next(iter(pending), None) or max(failed, key=_patience_rank)

    def judge(self, claim: SingleObject) -> Verdict:
        """Decide by the phase, and by whether it can still be reached."""
        if self._phase == "Bound":
            return self.bound(claim)
        absent = claim.missing_verdict()
        if absent is not None:
            return absent
        phase = get_phase(claim.current or {})
        if phase == self._phase:
            return Met()
        if self._phase == "Pending":
            return Failed(f"the claim is {phase} already")
        return Pending(phase)

    def result(self) -> Any:
        """Return the claim, or the list of those in the phase."""
        claims = [
            each.object()
            for each in self.claims.sightings
            if each.current is not None and get_phase(each.current) == self._phase
        ]
        return claims if self._several else claims[0]


class AbsentClaim(AbsentObject):
    """One claim is gone, even if a new one has the same name.

    Args:
        namespace: the namespace of the claim.
        claim: its name.
        uid: its UID; None for the first one seen.

    Raises:
        InvalidArgument: the name or UID is invalid.
    """

    def __init__(self, namespace: str, claim: str, uid: str | None) -> None:
        self._users = ClaimUserStore()
        super().__init__(
            PERSISTENT_VOLUME_CLAIMS,
            check_namespace(namespace),
            claim,
            uid,
            lambda claim: "it is there",
            self._used_by,
            fields=PartialObjectMetadata,
        )
        self._pod_source = Source(PODS, namespace, self._users, fields=_PodFields)

    def sources(self) -> Sequence[Source]:
        """Return the claim, and the pods while pvc-protection delays its deletion."""
        metadata = (self.object.current or {}).get("metadata") or {}
        held = _PROTECTION in (metadata.get("finalizers") or ())
        if held and metadata.get("deletionTimestamp") and self._pod_source not in self._sources:
            self._sources = (*self._sources, self._pod_source)
        return self._sources

    def _used_by(self, claim: dict[str, Any], finalizer: str) -> str:
        pods = self._users.of(self.object.name) if finalizer == _PROTECTION else ()
        return (
            f"used by {'pod' if len(pods) == 1 else 'pods'} {', '.join(pods[:5])}" if pods else ""
        )

    def scope(self) -> EvidenceScope:
        """Return the claim and the pods that use it."""
        pods = tuple(self._users.of(self.object.name))
        return EvidenceScope(self.namespace, objects=(self.object.reference(),), pod_names=pods)


_PROTECTION = "kubernetes.io/pvc-protection"
