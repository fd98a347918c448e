"""Waits on PersistentVolumeClaims: phase, finalizers, deletion, modification.

A modification gives a claim another VolumeAttributesClass.

Source: kubernetes/test/e2e/framework/pv/pv.go and wait.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

from pytest_kwait.apimachinery.conditions import get_phase
from pytest_kwait.apimachinery.validation import check_name, check_namespace
from pytest_kwait.client.resource import PERSISTENT_VOLUME_CLAIMS
from pytest_kwait.engine.options import WaitOptions, check_bool, check_text
from pytest_kwait.engine.verdicts import Failed, Met, Patience, Pending, Verdict
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.named_objects import (
    NamedObject,
    ObjectGoal,
    finalizer_goal,
    parse_named_uids,
)
from pytest_kwait.framework.registry import wait
from pytest_kwait.framework.storage.claim_conditions import (
    AbsentClaim,
    ClaimFields,
    ClaimsInPhase,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubernetes.client import ApiClient

    from pytest_kwait.framework.registry import ConditionOf

__all__ = [
    "wait_for_persistent_volume_claim_deleted",
    "wait_for_persistent_volume_claim_modification_failure",
    "wait_for_persistent_volume_claim_modified",
    "wait_for_persistent_volume_claim_phase",
    "wait_for_persistent_volume_claims_phase",
    "wait_for_pvc_finalizer",
]

_PHASES = ("Pending", "Bound", "Lost")


@wait(limit="claim_bound", summary="a claim in a phase")
def wait_for_persistent_volume_claim_phase(
    client: ApiClient, namespace: str, claim: str, phase: str, **options: Unpack[WaitOptions]
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
    check_name("claim", claim)
    return ClaimsInPhase(namespace, {claim: ""}, _check_phase(phase))


@wait(limit="claim_bound", summary="claims in a phase, all of them or any")
def wait_for_persistent_volume_claims_phase(
    client: ApiClient,
    namespace: str,
    claims: Sequence[dict[str, Any] | str],
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
        parse_named_uids("claims", claims),
        _check_phase(phase),
        match_any=check_bool("match_any", match_any),
        several=True,
    )


@wait(limit="pv_delete", summary="a claim that is gone, by its UID")
def wait_for_persistent_volume_claim_deleted(
    client: ApiClient,
    namespace: str,
    claim: str,
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
    return AbsentClaim(namespace, check_name("claim", claim), uid)


@wait(limit="claim_bound", summary="a claim with a finalizer, or without")
def wait_for_pvc_finalizer(
    client: ApiClient,
    namespace: str,
    claim: str,
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
    where, name = check_namespace(namespace), check_name("claim", claim)
    return NamedObject(PERSISTENT_VOLUME_CLAIMS, where, name, goal, get_phase, ClaimFields)


def _check_phase(phase: object) -> str:
    if not isinstance(phase, str) or phase not in _PHASES:
        raise InvalidArgument("phase", phase, f"use {', '.join(_PHASES)}")
    return phase


Obj: TypeAlias = "dict[str, Any]"

_ERROR = "ModifyVolumeError"
_UNDER_WAY = "ModifyingVolume"


def _classes(claim: Obj) -> tuple[str, str]:
    """Return the desired and the current VolumeAttributesClass of a claim."""
    spec, status = claim.get("spec") or {}, claim.get("status") or {}
    wanted = spec.get("volumeAttributesClassName") or ""
    return wanted, status.get("currentVolumeAttributesClassName") or ""


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
    wanted, current = _classes(claim)
    attempt = _modification_status(claim)
    text = f"{get_phase(claim)}, of class {current or 'none'}, {wanted or 'none'} is asked for"
    error = (_condition(claim, _ERROR) or {}).get("message") or ""
    said = ": ".join(part for part in (attempt, " ".join(error.split())) if part)
    return f"{text}{': ' if said else ''}{said}"


def _modified(claim: Obj) -> Verdict:
    wanted, current = _classes(claim)
    quiet = _condition(claim, _ERROR) is None and _condition(claim, _UNDER_WAY) is None
    if (
        get_phase(claim) == "Bound"
        and wanted == current
        and quiet
        and not _modification_status(claim)
    ):
        return Met()
    if _modification_status(claim) == "Infeasible":
        # The driver has refused it as invalid; the claim may still be given another class.
        return Failed(_describe_claim(claim), Patience.LONG)
    return Pending(_describe_claim(claim))


def _refused(claim: Obj) -> Verdict:
    wanted, current = _classes(claim)
    error = _condition(claim, _ERROR)
    tried = _modification_status(claim) in ("InProgress", "Infeasible")
    if get_phase(claim) == "Bound" and error is not None and wanted != current and tried:
        return Met()
    return Pending(_describe_claim(claim))


@wait(
    limit="claim_provision", summary="a claim with the class of volume attributes that it asks for"
)
def wait_for_persistent_volume_claim_modified(
    client: ApiClient, namespace: str, claim: str, **options: Unpack[WaitOptions]
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
    return _claim_condition(namespace, claim, goal)


@wait(limit="claim_provision", summary="a claim that was refused that class")
def wait_for_persistent_volume_claim_modification_failure(
    client: ApiClient, namespace: str, claim: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a Bound claim once a change of its VolumeAttributesClass has failed.

    The ModifyVolumeError condition reports the failure, while the claim lacks the desired class.

    Raises:
        WaitFailed: the claim was deleted.

    Source: pv/wait.go WaitForPersistentVolumeClaimModificationFailure.
    """
    goal = ObjectGoal("get refused its class of volume attributes", _refused, alive=True)
    return _claim_condition(namespace, claim, goal)


def _claim_condition(namespace: str, claim: str, goal: ObjectGoal) -> NamedObject:
    where, name = check_namespace(namespace), check_name("claim", claim)
    return NamedObject(PERSISTENT_VOLUME_CLAIMS, where, name, goal, _describe_claim)
