"""Waits on claims that are given another class of volume attributes.

Source: kubernetes/test/e2e/framework/pv/wait.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, Unpack, cast

from pytest_kwait.client.resource import PERSISTENT_VOLUME_CLAIMS
from pytest_kwait.client.session import Session
from pytest_kwait.engine.options import WaitOptions, check_name, check_namespace, resolve_options
from pytest_kwait.engine.verdicts import Failed, Met, Patience, Pending, Verdict
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.framework.named_objects import NamedObject, ObjectGoal
from pytest_kwait.framework.storage.claim_conditions import phase_of

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

__all__ = [
    "persistent_volume_claim_modification_failure",
    "persistent_volume_claim_modified",
    "wait_for_persistent_volume_claim_modification_failure",
    "wait_for_persistent_volume_claim_modified",
]

Obj: TypeAlias = "dict[str, Any]"

_ERROR = "ModifyVolumeError"
_UNDER_WAY = "ModifyingVolume"


def _classes(claim: Obj) -> tuple[str, str]:
    """Return the class of volume attributes that a claim is to have, and the one that it has."""
    spec, status = claim.get("spec") or {}, claim.get("status") or {}
    wanted = spec.get("volumeAttributesClassName") or ""
    return wanted, status.get("currentVolumeAttributesClassName") or ""


def _modification_status(claim: Obj) -> str:
    """Return how a modification stands: `Pending`, `InProgress`, `Infeasible`; empty for none."""
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
    text = f"{phase_of(claim)}, of class {current or 'none'}, {wanted or 'none'} is asked for"
    error = (_condition(claim, _ERROR) or {}).get("message") or ""
    said = ": ".join(part for part in (attempt, " ".join(error.split())) if part)
    return f"{text}{': ' if said else ''}{said}"


def _modified(claim: Obj) -> Verdict:
    wanted, current = _classes(claim)
    quiet = _condition(claim, _ERROR) is None and _condition(claim, _UNDER_WAY) is None
    if (
        phase_of(claim) == "Bound"
        and wanted == current
        and quiet
        and not _modification_status(claim)
    ):
        return Met()
    if _modification_status(claim) == "Infeasible":
        # The driver has refused it as invalid; another class may be asked for.
        return Failed(_describe_claim(claim), Patience.LONG)
    return Pending(_describe_claim(claim))


def _refused(claim: Obj) -> Verdict:
    wanted, current = _classes(claim)
    error = _condition(claim, _ERROR)
    tried = _modification_status(claim) in ("InProgress", "Infeasible")
    if phase_of(claim) == "Bound" and error is not None and wanted != current and tried:
        return Met()
    return Pending(_describe_claim(claim))


def persistent_volume_claim_modified(namespace: str, claim: str) -> NamedObject:
    """Return the condition of `wait_for_persistent_volume_claim_modified`."""
    goal = ObjectGoal("get its class of volume attributes", _modified, alive=True)
    return _claim_condition(namespace, claim, goal)


def wait_for_persistent_volume_claim_modified(
    client: ApiClient, namespace: str, claim: str, **options: Unpack[WaitOptions]
) -> dict[str, Any]:
    """Return a claim once it is Bound and has the class of volume attributes that it asks for.

    It asks for one by `spec.volumeAttributesClassName`; one that asks for none has it at once.
    Upstream compares with the claim as it was handed over, and takes it for modified where that
    says so already.

    Args:
        client: the official client.
        namespace: where the claim is.
        claim: its name.
        **options: `timeout` (default: `claim_provision`, 5 minutes) and the other options of every
            wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: the driver has refused the class, or the claim was
            deleted.
        WaitTimeout: it did not come within the limit.

    Source: pv/wait.go WaitForPersistentVolumeClaimModified.
    """
    return _wait_for_modification(
        client, persistent_volume_claim_modified(namespace, claim), options
    )


def persistent_volume_claim_modification_failure(namespace: str, claim: str) -> NamedObject:
    """Return the condition of `wait_for_persistent_volume_claim_modification_failure`."""
    goal = ObjectGoal("get refused its class of volume attributes", _refused, alive=True)
    return _claim_condition(namespace, claim, goal)


def wait_for_persistent_volume_claim_modification_failure(
    client: ApiClient, namespace: str, claim: str, **options: Unpack[WaitOptions]
) -> dict[str, Any]:
    """Return a Bound claim once an attempt to give it another class of attributes has failed.

    Its condition ModifyVolumeError says so, while the claim has not the class that it asks for.

    Args:
        client: the official client.
        namespace: where the claim is.
        claim: its name.
        **options: `timeout` (default: `claim_provision`, 5 minutes) and the other options of every
            wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: the claim was deleted.
        WaitTimeout: it did not come within the limit.

    Source: pv/wait.go WaitForPersistentVolumeClaimModificationFailure.
    """
    awaited = persistent_volume_claim_modification_failure(namespace, claim)
    return _wait_for_modification(client, awaited, options)


def _claim_condition(namespace: str, claim: str, goal: ObjectGoal) -> NamedObject:
    where, name = check_namespace(namespace), check_name("claim", claim)
    return NamedObject(PERSISTENT_VOLUME_CLAIMS, where, name, goal, _describe_claim)


def _wait_for_modification(
    client: ApiClient, condition: NamedObject, options: WaitOptions
) -> dict[str, Any]:
    settings = resolve_options(options, timeout="claim_provision")
    found = wait_for_condition(Session.of(client), condition, settings)
    return cast("dict[str, Any]", found)
