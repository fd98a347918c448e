"""The waits on volumes, claims and attachments, as rows of the catalogue: data alone.

A row is name, arguments after client and namespace, summary, module, limit. The condition is made
by the function of the same module that has the wait's name without `wait_for_`.
"""

from __future__ import annotations

__all__ = ["CLAIM_WAITS", "VOLUME_WAITS"]

CLAIM_WAITS = (
    (
        "wait_for_persistent_volume_claim_phase",
        "claim, phase",
        "a claim in a phase",
        "claims",
        "claim_bound",
    ),
    (
        "wait_for_persistent_volume_claims_phase",
        "claims, phase, match_any=False",
        "claims in a phase, all of them or any",
        "claims",
        "claim_bound",
    ),
    (
        "wait_for_persistent_volume_claim_deleted",
        "claim, uid=None",
        "a claim that is gone, by its UID",
        "claims",
        "pv_delete",
    ),
    (
        "wait_for_pvc_finalizer",
        "claim, finalizer, present=True",
        "a claim with a finalizer, or without",
        "claims",
        "claim_bound",
    ),
    (
        "wait_for_persistent_volume_claim_modified",
        "claim",
        "a claim with the class of volume attributes that it asks for",
        "claim_modifications",
        "claim_provision",
    ),
    (
        "wait_for_persistent_volume_claim_modification_failure",
        "claim",
        "a claim that was refused that class",
        "claim_modifications",
        "claim_provision",
    ),
    (
        "wait_for_pv_and_pvc",
        "volume, claim",
        "a volume and a claim that are bound to each other",
        "volume_bindings",
        "pv_bound",
    ),
    (
        "wait_for_pv_claim_bound_phase",
        "claims",
        "claims and their volumes, bound to each other",
        "volume_bindings",
        "claim_provision",
    ),
)
"""Rows of what lives in a namespace."""

VOLUME_WAITS = (
    (
        "wait_for_persistent_volume_phase",
        "volume, phase",
        "a volume in a phase",
        "persistent_volumes",
        "pv_bound",
    ),
    (
        "wait_for_persistent_volume_deleted",
        "volume, uid=None",
        "a volume that is gone, by its UID",
        "persistent_volumes",
        "pv_delete",
    ),
    (
        "wait_for_pv_finalizer",
        "volume, finalizer, present=True",
        "a volume with a finalizer, or without",
        "persistent_volumes",
        "pv_create",
    ),
    (
        "wait_for_volume_attachment_created",
        "attachment",
        "a VolumeAttachment that is there",
        "volume_attachments",
        "pod_start",
    ),
    (
        "wait_for_volume_attachment_attached",
        "attachment",
        "a VolumeAttachment whose volume is attached",
        "volume_attachments",
        "pod_start",
    ),
    (
        "wait_for_volume_attachment_terminated",
        "attachment, uid=None",
        "a VolumeAttachment that is gone, by its UID",
        "volume_attachments",
        "pv_delete",
    ),
)
"""Rows of what lives in the cluster."""
