"""Waits on PersistentVolumes and VolumeAttachments.

A claim and a volume are bound only if each names the other, by UID.

Source: kubernetes/test/e2e/framework/pv/pv.go and volume/fixtures.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, Unpack, overload

from pytest_kwait.apimachinery.conditions import get_phase
from pytest_kwait.apimachinery.validation import check_name
from pytest_kwait.client.resource import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    VOLUME_ATTACHMENTS,
)
from pytest_kwait.client.responses import ObjectMeta
from pytest_kwait.engine.condition import (
    EvidenceScope,
    Failed,
    Grace,
    Met,
    Pending,
    Source,
    Verdict,
)
from pytest_kwait.engine.object_sinks import SingleObject
from pytest_kwait.engine.options import WaitOptions, check_bool, check_text
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.named_objects import (
    AbsentObject,
    NamedObject,
    ObjectGoal,
    finalizer_goal,
    parse_named_uids,
)
from pytest_kwait.framework.registry import wait
from pytest_kwait.framework.storage.claims import AwaitedClaims

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kubernetes.client import ApiClient

    from pytest_kwait.framework.named_objects import KubernetesObjects
    from pytest_kwait.framework.registry import ConditionOf

Obj: TypeAlias = "dict[str, Any]"

_PHASES = ("Pending", "Available", "Bound", "Released", "Failed")
_USABLE = ("Available", "Bound")


class _Reference(TypedDict, total=False):
    namespace: str | None
    name: str | None
    uid: str | None


class _Spec(TypedDict, total=False):
    claimRef: _Reference | None
    persistentVolumeReclaimPolicy: str | None


class _Status(TypedDict, total=False):
    phase: str | None
    message: str | None


class VolumeFields(TypedDict, total=False):
    """The fields of a volume that waits read."""

    metadata: ObjectMeta
    spec: _Spec | None
    status: _Status | None


def claim_of(volume: dict[str, Any]) -> str:
    """Return namespace and name of a volume's `claimRef`; empty for none."""
    claim = (volume.get("spec") or {}).get("claimRef") or {}
    return f"{claim.get('namespace')}/{claim.get('name')}" if claim.get("name") else ""


class BoundClaims(AwaitedClaims):
    """Claims and their volumes, Bound to each other.

    Args:
        claims: their UIDs by name.
        volume: the volume of the only claim; empty for any.
    """

    def __init__(self, namespace: str, claims: Mapping[str, str], volume: str = "") -> None:
        goal = f"become bound to volume {volume}" if volume else "become bound"
        super().__init__(namespace, claims, goal)
        self._volume = volume
        self._volumes: dict[str, SingleObject] = {}
        if volume:
            self._look_at(volume)

    def _look_at(self, volume: str) -> None:
        sighting = self._volumes[volume] = SingleObject(PERSISTENT_VOLUMES, volume)
        source = Source(PERSISTENT_VOLUMES, None, sighting, volume, fields=VolumeFields)
        self._sources = (*self._sources, source)

    def sources(self) -> Sequence[Source]:
        """Return the claims' sources and the volumes that they are bound to."""
        for claim in self.claims.sightings:
            volume = _volume_name_of(claim)
            if volume and volume not in self._volumes and not self._volume:
                self._look_at(volume)
        return super().sources()

    def claim_verdict(self, claim: SingleObject) -> Verdict:
        """Return the verdict on one claim, then on the volume that it names."""
        volume = _volume_name_of(claim)
        if self._volume and volume not in ("", self._volume):
            return Failed(f"the claim has volume {volume}")
        bound = self.bound(claim)
        sighting = self._volumes.get(self._volume or volume)
        if sighting is None:
            return bound if not isinstance(bound, Met) else Pending("Bound, to no volume by name")
        # A problem of the volume explains more than the claim's own status.
        volume_verdict = self._volume_verdict(claim, sighting)
        return (
            volume_verdict
            if isinstance(volume_verdict, Failed) or isinstance(bound, Met)
            else bound
        )

    def _volume_verdict(self, claim: SingleObject, volume: SingleObject) -> Verdict:
        absent = volume.missing_verdict()
        if absent is not None:
            return (
                Pending(f"there is no volume {volume.name} yet")
                if isinstance(absent, Pending)
                else absent
            )
        current = volume.current or {}
        holder = (volume.spec.get("claimRef") or {}).get("uid") or ""
        if holder not in ("", claim.uid) and claim.uid:
            # An administrator may clear the `claimRef`.
            text = f"volume {volume.name} is kept for claim {claim_of(current)} of another UID"
            return Failed(text, Grace.LONG)
        named = claim_of(current)
        if named not in ("", f"{self.namespace}/{claim.name}"):
            return Failed(f"volume {volume.name} is kept for claim {named}", Grace.LONG)
        phase = get_phase(current)
        if phase == "Bound" and holder == claim.uid:
            return Met()
        message = volume.status.get("message")
        return Pending(f"volume {volume.name} is {phase}{f': {message}' if message else ''}")

    def summarize(self) -> str:
        """Return a summary of the phases of claims and volumes."""
        volumes = ", ".join(
            f"volume {sighting.name} {get_phase(sighting.current)}"
            for sighting in self._volumes.values()
            if sighting.current is not None
        )
        return "; ".join(part for part in (super().summarize(), volumes) if part)

    def result(self) -> list[dict[str, Any]]:
        """Return the volume and its claim, or the volumes in the order of their claims."""
        claims = list(self.claims.sightings)
        volumes = [self._volumes[_volume_name_of(claim)].object() for claim in claims]
        return [*volumes, claims[0].object()] if self._volume else volumes

    def scope(self) -> EvidenceScope:
        """Return the claims with their pods, and the volumes."""
        scope = super().scope()
        volumes = tuple(sighting.reference() for sighting in self._volumes.values())
        return EvidenceScope(
            scope.namespace, objects=(*scope.objects, *volumes), pod_names=scope.pod_names
        )


def _volume_name_of(claim: SingleObject) -> str:
    return str(claim.spec.get("volumeName") or "")


@wait(
    limit="pv_bound",
    kind=PERSISTENT_VOLUMES,
    kinds={"claim": PERSISTENT_VOLUME_CLAIMS},
    has_model=False,
    summary="a volume and a claim that are bound to each other",
)
def wait_for_pv_and_pvc(
    client: ApiClient, namespace: str, name: str, claim: str, **options: Unpack[WaitOptions]
) -> ConditionOf[list[dict[str, Any]]]:
    """Return a volume and a claim once both are Bound, to each other.

    The claim must name the volume, and the volume the claim by its UID. Upstream gives each of them
    its own limit, and checks their binding to each other afterwards.

    Args:
        name: the name of the PersistentVolume.
        claim: the name of the PersistentVolumeClaim.

    Raises:
        WaitFailed: the claim has another volume or is lost, one of the two was deleted, or the
            volume is reserved for another claim.

    Source: pv/pv.go WaitOnPVandPVC.
    """
    check_name("volume", name)
    return BoundClaims(namespace, {check_name("claim", claim): ""}, name)


@wait(
    limit="claim_provision",
    kinds={"claims": PERSISTENT_VOLUME_CLAIMS},
    has_model=False,
    summary="claims and their volumes, bound to each other",
)
def wait_for_pv_claim_bound_phase(
    client: ApiClient,
    namespace: str,
    claims: KubernetesObjects,
    **options: Unpack[WaitOptions],
) -> ConditionOf[list[dict[str, Any]]]:
    """Return the volumes of claims, in their order, once all are Bound to each other.

    Upstream reads the volumes once their claims are Bound, and waits for one claim after the other.

    Args:
        claims: the claims themselves or their names, at least one; a claim given as an object is
            identified by its UID.

    Raises:
        WaitFailed: a claim is lost, was deleted or cannot currently get a volume, or its volume is
            reserved for another claim.

    Source: pv/pv.go WaitForPVClaimBoundPhase and WaitAndVerifyBinds.
    """
    return BoundClaims(
        namespace,
        parse_named_uids("claims", claims, PERSISTENT_VOLUME_CLAIMS.kind, namespace=namespace),
    )


def _describe_volume(volume: Obj) -> str:
    phase, claim = get_phase(volume), claim_of(volume)
    relation = {"Bound": "to", "Released": "by"}.get(phase, "kept for")
    message = (volume.get("status") or {}).get("message")
    return f"{phase}{f' {relation} {claim}' if claim else ''}{f': {message}' if message else ''}"


@wait(limit="pv_bound", kind=PERSISTENT_VOLUMES, summary="a volume in a phase")
def wait_for_persistent_volume_phase(
    client: ApiClient, name: str, phase: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a volume once it is in a phase.

    Args:
        phase: `Pending`, `Available`, `Bound`, `Released` or `Failed`.

    Raises:
        WaitFailed: the volume was deleted; or Available or Bound is awaited, and the volume is
            reserved for a claim that is gone.

    Source: pv/pv.go WaitForPersistentVolumePhase.
    """
    value: object = phase
    if not isinstance(value, str) or value not in _PHASES:
        raise InvalidArgument("phase", value, f"use {', '.join(_PHASES)}")

    def evaluate(obj: Obj) -> Verdict:
        there = get_phase(obj)
        if there == phase:
            return Met()
        if phase in _USABLE and there in ("Released", "Failed"):
            # Until its `claimRef` is cleared, or its reclamation succeeds.
            return Failed(
                f"the volume is {_describe_volume(obj)}, which no other claim gets", Grace.LONG
            )
        return Pending(_describe_volume(obj))

    goal = ObjectGoal(f"get to phase {phase}", evaluate, alive=phase in _USABLE)
    return _volume_condition(name, goal)


@wait(limit="pv_delete", kind=PERSISTENT_VOLUMES, summary="a volume that is gone, by its UID")
def wait_for_persistent_volume_deleted(
    client: ApiClient, name: str, uid: str | None = None, **options: Unpack[WaitOptions]
) -> ConditionOf[None]:
    """Return None once a volume is gone, at once if it does not exist.

    Meanwhile the message names its finalizers, the claim that it is bound to, or a reclaim policy
    of Retain. A new volume of the same name does not count.

    Args:
        uid: its UID; None for the first one seen.

    Source: pv/pv.go WaitForPersistentVolumeDeleted.
    """
    name = check_name("volume", name)
    return AbsentObject(
        PERSISTENT_VOLUMES,
        None,
        name,
        uid,
        _describe_volume,
        _describe_finalizers,
        _describe_undeleted,
        fields=VolumeFields,
    )


@overload
def wait_for_pv_finalizer(
    client: ApiClient,
    name: str,
    finalizer: str,
    present: Literal[True] = True,
    **options: Unpack[WaitOptions],
) -> dict[str, Any]: ...
@overload
def wait_for_pv_finalizer(
    client: ApiClient,
    name: str,
    finalizer: str,
    present: bool,
    **options: Unpack[WaitOptions],
) -> dict[str, Any] | None: ...
@wait(limit="pv_create", kind=PERSISTENT_VOLUMES, summary="a volume with a finalizer, or without")
def wait_for_pv_finalizer(
    client: ApiClient,
    name: str,
    finalizer: str,
    present: bool = True,
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any] | None]:
    """Return a volume once it has, or no longer has, a finalizer.

    Args:
        finalizer: for example `kubernetes.io/pv-protection`.
        present: False to wait until it is gone.

    Returns:
        The volume; None if `present` is False and the volume does not exist.

    Raises:
        WaitFailed: the volume was deleted before it had the finalizer.

    Source: pv/pv.go WaitForPVCFinalizer, here for volumes.
    """
    goal = finalizer_goal(check_text("finalizer", finalizer), check_bool("present", present))
    return _volume_condition(name, goal)


def _volume_condition(volume: str, goal: ObjectGoal) -> NamedObject:
    name = check_name("volume", volume)
    return NamedObject(PERSISTENT_VOLUMES, None, name, goal, _describe_volume, VolumeFields)


def _describe_finalizers(volume: Obj, finalizer: str) -> str:
    bound = get_phase(volume) == "Bound" and finalizer == "kubernetes.io/pv-protection"
    return f"bound to claim {claim_of(volume)}" if bound else ""


def _describe_undeleted(volume: Obj) -> str:
    policy = (volume.get("spec") or {}).get("persistentVolumeReclaimPolicy") or "Retain"
    if get_phase(volume) == "Bound":
        return f"bound to claim {claim_of(volume)}, its reclaim policy is {policy}"
    if get_phase(volume) in ("Released", "Failed") and policy == "Delete":
        message = (volume.get("status") or {}).get("message")
        return f"to be deleted by its provisioner{f': {message}' if message else ''}"
    return f"not being deleted, its reclaim policy is {policy}"


def _error(obj: Obj, kind: str) -> str:
    """Return the error of the last attempt; empty if there was none."""
    message = ((obj.get("status") or {}).get(kind) or {}).get("message") or ""
    return " ".join(message.split())


def _describe_attachment(obj: Obj) -> str:
    node = (obj.get("spec") or {}).get("nodeName")
    attached = (obj.get("status") or {}).get("attached")
    return f"{'attached' if attached else 'not attached'} to {node}"


def _attached(obj: Obj) -> Verdict:
    if (obj.get("status") or {}).get("attached") is True:
        return Met()
    # Attaching is retried: the error of one attempt is not final.
    error = _error(obj, "attachError")
    who = (obj.get("spec") or {}).get("attacher")
    return Pending(
        f"{_describe_attachment(obj)}: {error}"
        if error
        else f"{_describe_attachment(obj)} by {who} yet"
    )


@wait(limit="pod_start", kind=VOLUME_ATTACHMENTS, summary="a VolumeAttachment that is there")
def wait_for_volume_attachment_created(
    client: ApiClient, name: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a VolumeAttachment once it exists, attached or not.

    Source: volume/fixtures.go WaitForVolumeAttachmentCreated.
    """
    return _attachment_condition(name, ObjectGoal("get created", lambda obj: Met()))


@wait(
    limit="pod_start",
    kind=VOLUME_ATTACHMENTS,
    summary="a VolumeAttachment whose volume is attached",
)
def wait_for_volume_attachment_attached(
    client: ApiClient, name: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a VolumeAttachment once its status reports the volume as attached.

    An error of one attempt does not end the wait, since attaching is retried; the message names it.

    Raises:
        WaitFailed: the attachment was deleted.

    Source: none upstream; the field is that of storage.k8s.io/v1 VolumeAttachmentStatus.
    """
    return _attachment_condition(name, ObjectGoal("become attached", _attached, alive=True))


@wait(
    limit="pv_delete",
    kind=VOLUME_ATTACHMENTS,
    summary="a VolumeAttachment that is gone, by its UID",
)
def wait_for_volume_attachment_terminated(
    client: ApiClient, name: str, uid: str | None = None, **options: Unpack[WaitOptions]
) -> ConditionOf[None]:
    """Return None once a VolumeAttachment is gone, at once if it does not exist.

    Meanwhile the message names its finalizers, and the error of the last attempt to detach the
    volume. A new attachment of the same name does not count: names are derived from the volume and
    the node, and are reused.

    Args:
        uid: its UID; None for the first one seen.

    Source: volume/fixtures.go WaitForVolumeAttachmentTerminated.
    """
    name = check_name("attachment", name)
    return AbsentObject(
        VOLUME_ATTACHMENTS,
        None,
        name,
        uid,
        _describe_attachment,
        _describe_detach_error,
    )


def _attachment_condition(attachment: str, goal: ObjectGoal) -> NamedObject:
    name = check_name("attachment", attachment)
    return NamedObject(VOLUME_ATTACHMENTS, None, name, goal, _describe_attachment)


def _describe_detach_error(obj: Obj, finalizer: str) -> str:
    return _error(obj, "detachError")
