"""Terminal states of PersistentVolumeClaims: lost, or currently not provisionable.

A wrong class or provisioner shows only in the controller's events; a missing class shows in the
claim. A volume may still be created by hand, so every state but Lost may pass.

Source: kubernetes/pkg/controller/volume/persistentvolume/pv_controller.go, syncUnboundClaim,
syncBoundClaim and provisionClaim.
"""

from __future__ import annotations

from typing import Any

from pytest_kwait.engine.condition import Grace, TerminalState

_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"

# The controller's reasons for missing or unsuitable classes and volumes. Errors of provisioners
# are left out: provisioners retry.
_UNPROVISIONABLE = {
    "ProvisioningFailed": ("storageclass.storage.k8s.io", "no volume plugin matched"),
    "FailedBinding": ("already bound to a different claim",),
    "VolumeMismatch": ("",),
}
_LOST = ("ClaimLost", "ClaimMisbound")


def storage_class_of(claim: dict[str, Any]) -> str:
    """Return the name of a claim's storage class; empty if it names none."""
    annotations = claim["metadata"].get("annotations") or {}
    named = annotations.get(_CLASS_ANNOTATION)
    return str(named or (claim.get("spec") or {}).get("storageClassName") or "")


def detect_claim_failure(
    claim: dict[str, Any], event: dict[str, Any] | None
) -> TerminalState | None:
    """Return why a claim gets no volume; None while it may, or has one.

    A class that waits for its first consumer and a slow provisioner are no failures.

    Args:
        event: the last event about it; None if there was none.
    """
    phase = (claim.get("status") or {}).get("phase") or "Pending"
    event_text = _describe_event(event)
    reason = (event or {}).get("reason") or ""
    if phase == "Lost":
        why = f": {event_text}" if reason in _LOST else ", its volume is gone or is another claim's"
        return TerminalState(f"the claim is Lost{why}", Grace.SHORT)
    if phase != "Pending":
        return None
    text = event_text.lower()
    if any(phrase in text for phrase in _UNPROVISIONABLE.get(reason, ())):
        return TerminalState(event_text, Grace.LONG)
    if not storage_class_of(claim) and not (claim.get("spec") or {}).get("volumeName"):
        return TerminalState("it asks for no storage class, and no volume fits it", Grace.LONG)
    return None


def describe_claim(claim: dict[str, Any], event: dict[str, Any] | None) -> str:
    """Return the state of a claim: its phase and the last event about it."""
    phase = (claim.get("status") or {}).get("phase") or "Pending"
    if phase != "Pending":
        return str(phase)
    volume_name = (claim.get("spec") or {}).get("volumeName")
    asked = f", it asks for volume {volume_name}" if volume_name else ""
    event_text = _describe_event(event)
    return f"Pending{asked}{': ' if event_text else ''}{event_text}"


def _describe_event(event: dict[str, Any] | None) -> str:
    """Return the first sentence of an event; the rest is advice."""
    if event is None:
        return ""
    message = " ".join((event.get("message") or "").split())
    first = message.split(". ")[0].rstrip(".")
    return f"{event.get('reason')}: {first}" if first else str(event.get("reason") or "")
