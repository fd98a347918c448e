"""Conditions and waits on PersistentVolumeClaims: phase, finalizers, deletion, modification.

While a claim has no volume its events are watched too, since its status gives no reason. Once
it seems to have failed, the pods of the namespace are watched, to name those that wait for it. A
modification gives a claim another VolumeAttributesClass.

Source: kubernetes/test/e2e/framework/pv/pv.go and wait.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, Unpack, overload

from pytest_kwait.apimachinery.conditions import get_phase
from pytest_kwait.apimachinery.validation import check_name, check_namespace
from pytest_kwait.client.resource import EVENTS, PERSISTENT_VOLUME_CLAIMS, PODS
from pytest_kwait.client.responses import ObjectMeta, PartialObjectMetadata
from pytest_kwait.engine.condition import (
    Condition,
    EvidenceScope,
    Failed,
    Grace,
    Met,
    ObjectSink,
    Pending,
    Source,
    Verdict,
)
from pytest_kwait.engine.options import WaitOptions, check_bool, check_text
from pytest_kwait.engine.pod_fields import is_finished
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.events import EventFields, EventSource, LastEventStore
from pytest_kwait.framework.named_objects import (
    AbsentObject,
    NamedObject,
    NamedObjectStore,
    ObjectGoal,
    finalizer_goal,
    join_names,
    parse_named_uids,
)
from pytest_kwait.framework.registry import wait
from pytest_kwait.framework.terminal_states.claims import describe_claim, detect_claim_failure

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kubernetes.client import ApiClient

    from pytest_kwait.engine.condition import TerminalState
    from pytest_kwait.engine.object_sinks import SingleObject
    from pytest_kwait.framework.named_objects import KubernetesObjects
    from pytest_kwait.framework.registry import ConditionOf

Obj: TypeAlias = "dict[str, Any]"

_PROTECTION = "kubernetes.io/pvc-protection"

_PHASES = ("Pending", "Bound", "Lost")

_ERROR = "ModifyVolumeError"
_UNDER_WAY = "ModifyingVolume"


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


class ClaimUserStore(ObjectSink):
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


class AwaitedClaims(Condition):
    """Base of conditions on claims: their sources, failures and evidence.

    Args:
        claims: their UIDs by name; an empty UID for the first one seen.
        goal: the awaited state, as a verb.
    """

    goal: str

    def __init__(self, namespace: str, claims: Mapping[str, str], goal: str) -> None:
        self.namespace = check_namespace(namespace)
        self.goal = goal
        self.claims = NamedObjectStore(PERSISTENT_VOLUME_CLAIMS, claims)
        self.events = LastEventStore()
        self.users = ClaimUserStore()
        only_name = next(iter(claims)) if len(claims) == 1 else None
        kind = PERSISTENT_VOLUME_CLAIMS.kind
        self._claim_source = Source(
            PERSISTENT_VOLUME_CLAIMS, namespace, self.claims, only_name, fields=ClaimFields
        )
        self._event_source = EventSource(
            EVENTS,
            namespace,
            self.events,
            fields=EventFields,
            optional=True,
            kind=kind,
            about=only_name or "",
        )
        self._pod_source = Source(PODS, namespace, self.users, fields=_PodFields, optional=True)
        self._sources = (self._claim_source,)

    @property
    def subject(self) -> str:
        """The claims."""
        names = [sighting.name for sighting in self.claims.sightings]
        if len(names) == 1:
            return f"persistentvolumeclaim {self.namespace}/{names[0]}"
        return f"persistentvolumeclaims {join_names(names)} in {self.namespace}"

    def sources(self) -> Sequence[Source]:
        """Return the claims; with their events and pods if there is something to explain."""
        for source in self._more_sources():
            if source not in self._sources:
                self._sources = (*self._sources, source)
        return self._sources

    def _more_sources(self) -> Sequence[Source]:
        unbound = [sighting for sighting in self.claims.sightings if _describe_unbound(sighting)]
        if not unbound:
            return ()
        stuck = any(self._terminal_state(sighting) is not None for sighting in unbound)
        return (self._event_source, self._pod_source) if stuck else (self._event_source,)

    def verdict(self) -> Verdict:
        """Decide by all claims: each must be in the awaited state."""
        pending, failed = self._claim_verdicts()
        # The most certain failure decides.
        return min(failed, key=_grace_rank, default=None) or next(iter(pending), None) or Met()

    def _claim_verdicts(self) -> tuple[list[Pending], list[Failed]]:
        """Return the unmet verdicts; with several claims each names its claim."""
        pending, failed = [], []
        for sighting in self.claims.sightings:
            verdict = self.claim_verdict(sighting)
            name = f"{sighting.name}: " if len(self.claims.sightings) > 1 else ""
            if isinstance(verdict, Pending):
                pending.append(Pending(f"{name}{verdict.reason}", absent=verdict.absent))
            elif isinstance(verdict, Failed):
                failed.append(Failed(f"{name}{verdict.reason}", verdict.grace, verdict.since))
        return pending, failed

    def claim_verdict(self, claim: SingleObject) -> Verdict:
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
        terminal = self._terminal_state(claim)
        if terminal is not None:
            return Failed(f"{terminal.reason}{self._waiting(claim.name)}", terminal.grace)
        return claim.ending() or Pending(describe_claim(current, self.events.last(claim.uid)))

    def _terminal_state(self, claim: SingleObject) -> TerminalState | None:
        return detect_claim_failure(claim.current or {}, self.events.last(claim.uid))

    def _waiting(self, claim: str) -> str:
        pods = self.users.of(claim)
        if not pods:
            return ""
        verb = "pod {} waits" if len(pods) == 1 else "pods {} wait"
        return f" ({verb.format(join_names(pods))} for it)"

    def summarize(self) -> str:
        """Return a summary of their phases."""
        there = [sighting for sighting in self.claims.sightings if sighting.current is not None]
        if len(self.claims.sightings) == 1:
            return "".join(get_phase(sighting.current or {}) for sighting in there)
        return ", ".join(
            f"{sighting.name} {get_phase(sighting.current or {})}" for sighting in there
        )

    def result(self) -> Any:
        """Return the claim, or the list of claims in the order of the argument."""
        claims = [
            sighting.object() for sighting in self.claims.sightings if sighting.current is not None
        ]
        return claims if len(self.claims.sightings) > 1 else claims[0]

    def scope(self) -> EvidenceScope:
        """Return the claims, and the pods known to wait for them."""
        pods = [pod for sighting in self.claims.sightings for pod in self.users.of(sighting.name)]
        references = tuple(sighting.reference() for sighting in self.claims.sightings)
        return EvidenceScope(
            self.namespace, objects=references, pod_names=tuple(dict.fromkeys(pods))
        )


def _grace_rank(end: Failed) -> int:
    return (Grace.NONE, Grace.SHORT, Grace.LONG).index(end.grace)


def _describe_unbound(claim: SingleObject) -> bool:
    return claim.missing_verdict() is None and get_phase(claim.current or {}) != "Bound"


class ClaimsInPhase(AwaitedClaims):
    """Claims in a phase: all of them, or any.

    Args:
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
        quantifier = ""
        if len(claims) > 1:
            quantifier = " (any)" if match_any else " (all)"
        super().__init__(namespace, claims, f"get to phase {phase}{quantifier}")
        self._phase = phase
        self._match_any = match_any
        self._several = several

    def _more_sources(self) -> Sequence[Source]:
        return super()._more_sources() if self._phase == "Bound" else ()

    def verdict(self) -> Verdict:
        """Decide by all claims; where one is enough, fail only if all have failed."""
        if not self._match_any:
            return super().verdict()
        pending, failed = self._claim_verdicts()
        if len(pending) + len(failed) < len(self.claims.sightings):
            return Met()
        # A failure that may pass keeps the others from being final.
        return next(iter(pending), None) or max(failed, key=_grace_rank)

    def claim_verdict(self, claim: SingleObject) -> Verdict:
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
            sighting.object()
            for sighting in self.claims.sightings
            if sighting.current is not None and get_phase(sighting.current) == self._phase
        ]
        return claims if self._several else claims[0]


class AbsentClaim(AbsentObject):
    """One claim is gone, even if a new one has the same name.

    Args:
        namespace: the namespace of the claim.
        claim: its name.
        uid: its UID; None for the first one seen.
    """

    def __init__(self, namespace: str, claim: str, uid: str | None) -> None:
        self._users = ClaimUserStore()
        super().__init__(
            PERSISTENT_VOLUME_CLAIMS,
            namespace,
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


@wait(limit="claim_bound", kind=PERSISTENT_VOLUME_CLAIMS, summary="a claim in a phase")
def wait_for_persistent_volume_claim_phase(
    client: ApiClient, namespace: str, name: str, phase: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a claim once it is in a phase.

    While an awaited claim is not Bound, its events are read as well: they report problems of its
    storage class and provisioner. Upstream checks neither events nor lost claims, and waits until
    the limit.

    Args:
        phase: `Pending`, `Bound` or `Lost`.

    Raises:
        WaitFailed: the claim is lost, was deleted or is past that phase, or cannot currently get a
            volume.

    Source: pv/pv.go WaitForPersistentVolumeClaimPhase.
    """
    check_name("claim", name)
    return ClaimsInPhase(namespace, {name: ""}, _check_phase(phase))


@wait(
    limit="claim_bound",
    kinds={"claims": PERSISTENT_VOLUME_CLAIMS},
    summary="claims in a phase, all of them or any",
)
def wait_for_persistent_volume_claims_phase(
    client: ApiClient,
    namespace: str,
    claims: KubernetesObjects,
    phase: str,
    match_any: bool = False,
    **options: Unpack[WaitOptions],
) -> ConditionOf[list[dict[str, Any]]]:
    """Return claims once all of them are in a phase, or any.

    All must be in it at the same moment. With `match_any` the wait fails only once all claims have
    failed, and returns those in the phase.

    Args:
        claims: the claims themselves or their names, at least one; a claim given as an object is
            identified by its UID.
        phase: `Pending`, `Bound` or `Lost`.
        match_any: whether one of them is enough.

    Raises:
        WaitFailed: a claim is lost, was deleted or is past that phase, or cannot currently get a
            volume.

    Source: pv/pv.go WaitForPersistentVolumeClaimsPhase.
    """
    return ClaimsInPhase(
        namespace,
        parse_named_uids("claims", claims, PERSISTENT_VOLUME_CLAIMS.kind, namespace=namespace),
        _check_phase(phase),
        match_any=check_bool("match_any", match_any),
        several=True,
    )


@wait(limit="pv_delete", kind=PERSISTENT_VOLUME_CLAIMS, summary="a claim that is gone, by its UID")
def wait_for_persistent_volume_claim_deleted(
    client: ApiClient,
    namespace: str,
    name: str,
    uid: str | None = None,
    **options: Unpack[WaitOptions],
) -> ConditionOf[None]:
    """Return None once a claim is gone, at once if it does not exist.

    Meanwhile the message names its finalizers and the pods that use it. A new claim of the same
    name does not count.

    Args:
        uid: its UID; None for the first one seen.

    Source: pv/pv.go DeletePVCandValidatePV, which checks the claim's end only through its volume.
    """
    return AbsentClaim(namespace, check_name("claim", name), uid)


@overload
def wait_for_pvc_finalizer(
    client: ApiClient,
    namespace: str,
    name: str,
    finalizer: str,
    present: Literal[True] = True,
    **options: Unpack[WaitOptions],
) -> dict[str, Any]: ...
@overload
def wait_for_pvc_finalizer(
    client: ApiClient,
    namespace: str,
    name: str,
    finalizer: str,
    present: bool,
    **options: Unpack[WaitOptions],
) -> dict[str, Any] | None: ...
@wait(
    limit="claim_bound",
    kind=PERSISTENT_VOLUME_CLAIMS,
    summary="a claim with a finalizer, or without",
)
def wait_for_pvc_finalizer(
    client: ApiClient,
    namespace: str,
    name: str,
    finalizer: str,
    present: bool = True,
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any] | None]:
    """Return a claim once it has, or no longer has, a finalizer.

    Args:
        finalizer: for example `kubernetes.io/pvc-protection`.
        present: False to wait until it is gone.

    Returns:
        The claim; None if `present` is False and the claim does not exist.

    Raises:
        WaitFailed: the claim was deleted before it had the finalizer.

    Source: pv/pv.go WaitForPVCFinalizer.
    """
    goal = finalizer_goal(check_text("finalizer", finalizer), check_bool("present", present))
    where, name = check_namespace(namespace), check_name("claim", name)
    return NamedObject(PERSISTENT_VOLUME_CLAIMS, where, name, goal, get_phase, ClaimFields)


def _check_phase(phase: object) -> str:
    if not isinstance(phase, str) or phase not in _PHASES:
        raise InvalidArgument("phase", phase, f"use {', '.join(_PHASES)}")
    return phase


def _classes(claim: Obj) -> tuple[str, str]:
    """Return the desired and the current VolumeAttributesClass of a claim."""
    spec, status = claim.get("spec") or {}, claim.get("status") or {}
    desired_class = spec.get("volumeAttributesClassName") or ""
    return desired_class, status.get("currentVolumeAttributesClassName") or ""


def _modification_status(claim: Obj) -> str:
    """Return `Pending`, `InProgress` or `Infeasible` for a modification; empty for none."""
    status = (claim.get("status") or {}).get("modifyVolumeStatus") or {}
    return str(status.get("status") or "")


def _condition(claim: Obj, kind: str) -> Obj | None:
    for condition in (claim.get("status") or {}).get("conditions") or ():
        if condition.get("type") == kind and condition.get("status") != "False":
            return dict(condition)
    return None


def _describe_claim(claim: Obj) -> str:
    desired_class, current = _classes(claim)
    attempt = _modification_status(claim)
    text = (
        f"{get_phase(claim)}, of class {current or 'none'}, {desired_class or 'none'} is asked for"
    )
    error = (_condition(claim, _ERROR) or {}).get("message") or ""
    why = ": ".join(part for part in (attempt, " ".join(error.split())) if part)
    return f"{text}{': ' if why else ''}{why}"


def _modified(claim: Obj) -> Verdict:
    desired_class, current = _classes(claim)
    quiet = _condition(claim, _ERROR) is None and _condition(claim, _UNDER_WAY) is None
    if (
        get_phase(claim) == "Bound"
        and desired_class == current
        and quiet
        and not _modification_status(claim)
    ):
        return Met()
    if _modification_status(claim) == "Infeasible":
        # The driver has refused it as invalid; the claim may still be given another class.
        return Failed(_describe_claim(claim), Grace.LONG)
    return Pending(_describe_claim(claim))


def _refused(claim: Obj) -> Verdict:
    desired_class, current = _classes(claim)
    error = _condition(claim, _ERROR)
    tried = _modification_status(claim) in ("InProgress", "Infeasible")
    if get_phase(claim) == "Bound" and error is not None and desired_class != current and tried:
        return Met()
    return Pending(_describe_claim(claim))


@wait(
    limit="claim_provision",
    kind=PERSISTENT_VOLUME_CLAIMS,
    summary="a claim with its requested class of volume attributes",
)
def wait_for_persistent_volume_claim_modified(
    client: ApiClient, namespace: str, name: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a claim once it is Bound and has the VolumeAttributesClass of its spec.

    The class is `spec.volumeAttributesClassName`; a claim without one satisfies this at once.
    Upstream compares with the claim passed in, and treats it as modified if that already has the
    class.

    Raises:
        WaitFailed: the driver has refused the class, or the claim was deleted.

    Source: pv/wait.go WaitForPersistentVolumeClaimModified.
    """
    goal = ObjectGoal("get its class of volume attributes", _modified, alive=True)
    return _claim_condition(namespace, name, goal)


@wait(
    limit="claim_provision",
    kind=PERSISTENT_VOLUME_CLAIMS,
    summary="a claim whose requested class of volume attributes was refused",
)
def wait_for_persistent_volume_claim_modification_failure(
    client: ApiClient, namespace: str, name: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a Bound claim once a change of its VolumeAttributesClass has failed.

    The ModifyVolumeError condition reports the failure, while the claim lacks the desired class.

    Raises:
        WaitFailed: the claim was deleted.

    Source: pv/wait.go WaitForPersistentVolumeClaimModificationFailure.
    """
    goal = ObjectGoal("get refused its class of volume attributes", _refused, alive=True)
    return _claim_condition(namespace, name, goal)


def _claim_condition(namespace: str, claim: str, goal: ObjectGoal) -> NamedObject:
    where, name = check_namespace(namespace), check_name("claim", claim)
    return NamedObject(PERSISTENT_VOLUME_CLAIMS, where, name, goal, _describe_claim)
