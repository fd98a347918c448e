"""Waits on persistent volumes: their phase, their finalizers, their end.

Source: kubernetes/test/e2e/framework/pv/pv.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, Unpack, cast

from pytest_kwait.client.resource import PERSISTENT_VOLUMES
from pytest_kwait.client.session import Session
from pytest_kwait.engine.options import WaitOptions, check_name, resolve_options
from pytest_kwait.engine.verdicts import Failed, Met, Patience, Pending, Verdict
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.named_objects import (
    AbsentObject,
    NamedObject,
    ObjectGoal,
    check_flag,
    check_text,
    finalizer_goal,
)
from pytest_kwait.framework.storage.claim_conditions import phase_of
from pytest_kwait.framework.storage.volume_bindings import VolumeFields, claim_of

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.engine.condition import Condition

__all__ = [
    "persistent_volume_deleted",
    "persistent_volume_phase",
    "pv_finalizer",
    "wait_for_persistent_volume_deleted",
    "wait_for_persistent_volume_phase",
    "wait_for_pv_finalizer",
]

_PHASES = ("Pending", "Available", "Bound", "Released", "Failed")
_USABLE = ("Available", "Bound")

Obj: TypeAlias = "dict[str, Any]"


def _describe_volume(volume: Obj) -> str:
    phase, claim = phase_of(volume), claim_of(volume)
    relation = {"Bound": "to", "Released": "by"}.get(phase, "kept for")
    message = (volume.get("status") or {}).get("message")
    return f"{phase}{f' {relation} {claim}' if claim else ''}{f': {message}' if message else ''}"


def persistent_volume_phase(volume: str, phase: str) -> NamedObject:
    """Return the condition of `wait_for_persistent_volume_phase`."""
    given: object = phase
    if not isinstance(given, str) or given not in _PHASES:
        raise InvalidArgument("phase", given, f"use {', '.join(_PHASES)}")

    def judge(obj: Obj) -> Verdict:
        there = phase_of(obj)
        if there == phase:
            return Met()
        if phase in _USABLE and there in ("Released", "Failed"):
            # Until somebody clears the claim that it was kept for, or its reclamation succeeds.
            return Failed(
                f"the volume is {_describe_volume(obj)}, which no other claim gets", Patience.LONG
            )
        return Pending(_describe_volume(obj))

    goal = ObjectGoal(f"get to phase {phase}", judge, alive=phase in _USABLE)
    return _volume_condition(volume, goal)


def wait_for_persistent_volume_phase(
    client: ApiClient, volume: str, phase: str, **options: Unpack[WaitOptions]
) -> dict[str, Any]:
    """Return a volume once it is in a phase.

    Args:
        client: the official client.
        volume: its name.
        phase: `Pending`, `Available`, `Bound`, `Released` or `Failed`.
        **options: `timeout` (default: `pv_bound`, 3 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: the volume was deleted, or is kept for a claim that is
            gone while Available or Bound is awaited.
        WaitTimeout: it did not come within the limit.

    Source: pv/pv.go WaitForPersistentVolumePhase.
    """
    awaited = persistent_volume_phase(volume, phase)
    return cast("dict[str, Any]", _wait(client, awaited, options, "pv_bound"))


def persistent_volume_deleted(volume: str, uid: str | None = None) -> AbsentObject:
    """Return the condition of `wait_for_persistent_volume_deleted`."""
    name = check_name("volume", volume)
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


def wait_for_persistent_volume_deleted(
    client: ApiClient, volume: str, uid: str | None = None, **options: Unpack[WaitOptions]
) -> None:
    """Return None once a volume is gone, at once if there is none of that name.

    While it is there the verdict names what holds it: its finalizers, the claim that it is bound
    to, or a reclaim policy of Retain. Another volume of the same name does not count.

    Args:
        client: the official client.
        volume: its name.
        uid: its UID; None to take the first one seen for the one that is meant.
        **options: `timeout` (default: `pv_delete`, 5 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitTimeout: it did not come within the limit.

    Source: pv/pv.go WaitForPersistentVolumeDeleted.
    """
    _wait(client, persistent_volume_deleted(volume, uid), options, "pv_delete")


def pv_finalizer(volume: str, finalizer: str, present: bool = True) -> NamedObject:
    """Return the condition of `wait_for_pv_finalizer`."""
    goal = finalizer_goal(check_text("finalizer", finalizer), check_flag("present", present))
    return _volume_condition(volume, goal)


def wait_for_pv_finalizer(
    client: ApiClient,
    volume: str,
    finalizer: str,
    present: bool = True,
    **options: Unpack[WaitOptions],
) -> dict[str, Any] | None:
    """Return a volume once it has a finalizer, or has it no more.

    Args:
        client: the official client.
        volume: its name.
        finalizer: for example `kubernetes.io/pv-protection`.
        present: False to wait until it is gone.
        **options: `timeout` (default: `pv_create`, 3 minutes) and the other options of every wait.

    Returns:
        The volume; None where its finalizer was awaited to go and it is not there itself.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: the finalizer can no longer come: the volume was deleted.
        WaitTimeout: it did not come within the limit.

    Source: pv/pv.go WaitForPVCFinalizer, here for volumes.
    """
    awaited = pv_finalizer(volume, finalizer, present)
    return cast("dict[str, Any] | None", _wait(client, awaited, options, "pv_create"))


def _volume_condition(volume: str, goal: ObjectGoal) -> NamedObject:
    name = check_name("volume", volume)
    return NamedObject(PERSISTENT_VOLUMES, None, name, goal, _describe_volume, VolumeFields)


def _describe_finalizers(volume: Obj, finalizer: str) -> str:
    bound = phase_of(volume) == "Bound" and finalizer == "kubernetes.io/pv-protection"
    return f"bound to claim {claim_of(volume)}" if bound else ""


def _describe_undeleted(volume: Obj) -> str:
    policy = (volume.get("spec") or {}).get("persistentVolumeReclaimPolicy") or "Retain"
    if phase_of(volume) == "Bound":
        return f"bound to claim {claim_of(volume)}, its reclaim policy is {policy}"
    if phase_of(volume) in ("Released", "Failed") and policy == "Delete":
        message = (volume.get("status") or {}).get("message")
        return f"to be deleted by who provides it{f': {message}' if message else ''}"
    return f"nobody is deleting it, its reclaim policy is {policy}"


def _wait(client: ApiClient, condition: Condition, options: WaitOptions, timeout: str) -> Any:
    settings = resolve_options(options, timeout=timeout)
    return wait_for_condition(Session.of(client), condition, settings)
