"""Waits on VolumeAttachments: created, attached, deleted.

Source: kubernetes/test/e2e/framework/volume/fixtures.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

from pytest_kwait.apimachinery.validation import check_name
from pytest_kwait.client.resource import VOLUME_ATTACHMENTS
from pytest_kwait.engine.verdicts import Met, Pending, Verdict
from pytest_kwait.framework.named_objects import AbsentObject, NamedObject, ObjectGoal
from pytest_kwait.framework.registry import wait

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.engine.options import WaitOptions
    from pytest_kwait.framework.registry import ConditionOf

__all__ = [
    "wait_for_volume_attachment_attached",
    "wait_for_volume_attachment_created",
    "wait_for_volume_attachment_terminated",
]

Obj: TypeAlias = "dict[str, Any]"


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


@wait(limit="pod_start", summary="a VolumeAttachment that is there")
def wait_for_volume_attachment_created(
    client: ApiClient, attachment: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a VolumeAttachment once it exists, attached or not.

    Source: volume/fixtures.go WaitForVolumeAttachmentCreated.
    """
    return _attachment_condition(attachment, ObjectGoal("get created", lambda obj: Met()))


@wait(limit="pod_start", summary="a VolumeAttachment whose volume is attached")
def wait_for_volume_attachment_attached(
    client: ApiClient, attachment: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a VolumeAttachment once its status reports the volume as attached.

    An error of one attempt does not end the wait, since attaching is retried; the message names it.

    Raises:
        WaitFailed: the attachment was deleted.

    Source: none upstream; the field is that of storage.k8s.io/v1 VolumeAttachmentStatus.
    """
    return _attachment_condition(attachment, ObjectGoal("become attached", _attached, alive=True))


@wait(limit="pv_delete", summary="a VolumeAttachment that is gone, by its UID")
def wait_for_volume_attachment_terminated(
    client: ApiClient, attachment: str, uid: str | None = None, **options: Unpack[WaitOptions]
) -> ConditionOf[None]:
    """Return None once a VolumeAttachment is gone, at once if it does not exist.

    Meanwhile the message names its finalizers, and the error of the last attempt to detach the
    volume. A new attachment of the same name does not count: names are derived from the volume and
    the node, and are reused.

    Args:
        uid: its UID; None for the first one seen.

    Source: volume/fixtures.go WaitForVolumeAttachmentTerminated.
    """
    name = check_name("attachment", attachment)
    return AbsentObject(
        VOLUME_ATTACHMENTS, None, name, uid, _describe_attachment, _describe_finalizers
    )


def _attachment_condition(attachment: str, goal: ObjectGoal) -> NamedObject:
    name = check_name("attachment", attachment)
    return NamedObject(VOLUME_ATTACHMENTS, None, name, goal, _describe_attachment)


def _describe_finalizers(obj: Obj, finalizer: str) -> str:
    return _error(obj, "detachError")
