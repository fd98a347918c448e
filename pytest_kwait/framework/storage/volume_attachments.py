"""Waits on VolumeAttachments: created, attached, deleted.

Source: kubernetes/test/e2e/framework/volume/fixtures.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, Unpack, cast

from pytest_kwait.apimachinery.validation import check_name
from pytest_kwait.client.resource import VOLUME_ATTACHMENTS
from pytest_kwait.client.session import Session
from pytest_kwait.engine.options import WaitOptions, resolve_options
from pytest_kwait.engine.verdicts import Met, Pending, Verdict
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.framework.named_objects import AbsentObject, NamedObject, ObjectGoal

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.engine.condition import Condition

__all__ = [
    "volume_attachment_attached",
    "volume_attachment_created",
    "volume_attachment_terminated",
    "wait_for_volume_attachment_attached",
    "wait_for_volume_attachment_created",
    "wait_for_volume_attachment_terminated",
]

Obj: TypeAlias = "dict[str, Any]"


def _error(obj: Obj, kind: str) -> str:
    """Return what went wrong at the last try; empty where nothing did."""
    message = ((obj.get("status") or {}).get(kind) or {}).get("message") or ""
    return " ".join(message.split())


def _describe_attachment(obj: Obj) -> str:
    node = (obj.get("spec") or {}).get("nodeName")
    attached = (obj.get("status") or {}).get("attached")
    return f"{'attached' if attached else 'not attached'} to {node}"


def _attached(obj: Obj) -> Verdict:
    if (obj.get("status") or {}).get("attached") is True:
        return Met()
    # Whoever attaches tries again: an error of one try is no end.
    error = _error(obj, "attachError")
    who = (obj.get("spec") or {}).get("attacher")
    return Pending(
        f"{_describe_attachment(obj)}: {error}"
        if error
        else f"{_describe_attachment(obj)} by {who} yet"
    )


def volume_attachment_created(attachment: str) -> NamedObject:
    """Return the condition of `wait_for_volume_attachment_created`."""
    return _attachment_condition(attachment, ObjectGoal("get created", lambda obj: Met()))


def wait_for_volume_attachment_created(
    client: ApiClient, attachment: str, **options: Unpack[WaitOptions]
) -> dict[str, Any]:
    """Return a VolumeAttachment once it is there, attached or not.

    Args:
        client: the official client.
        attachment: its name.
        **options: `timeout` (default: `pod_start`, 5 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitTimeout: it did not come within the limit.

    Source: volume/fixtures.go WaitForVolumeAttachmentCreated.
    """
    awaited = volume_attachment_created(attachment)
    return cast("dict[str, Any]", _wait(client, awaited, options, "pod_start"))


def volume_attachment_attached(attachment: str) -> NamedObject:
    """Return the condition of `wait_for_volume_attachment_attached`."""
    return _attachment_condition(attachment, ObjectGoal("become attached", _attached, alive=True))


def wait_for_volume_attachment_attached(
    client: ApiClient, attachment: str, **options: Unpack[WaitOptions]
) -> dict[str, Any]:
    """Return a VolumeAttachment once its status says that the volume is attached.

    An error of a try to attach it ends nothing, since there will be another; the message names it.

    Args:
        client: the official client.
        attachment: its name.
        **options: `timeout` (default: `pod_start`, 5 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: the attachment was deleted.
        WaitTimeout: it did not come within the limit.

    Source: none upstream; the field is that of storage.k8s.io/v1 VolumeAttachmentStatus.
    """
    awaited = volume_attachment_attached(attachment)
    return cast("dict[str, Any]", _wait(client, awaited, options, "pod_start"))


def volume_attachment_terminated(attachment: str, uid: str | None = None) -> AbsentObject:
    """Return the condition of `wait_for_volume_attachment_terminated`."""
    name = check_name("attachment", attachment)
    return AbsentObject(
        VOLUME_ATTACHMENTS, None, name, uid, _describe_attachment, _describe_finalizers
    )


def wait_for_volume_attachment_terminated(
    client: ApiClient, attachment: str, uid: str | None = None, **options: Unpack[WaitOptions]
) -> None:
    """Return None once a VolumeAttachment is gone, at once if there is none of that name.

    While it is there the verdict names its finalizers, and the error of the last try to detach the
    volume. Another attachment of the same name does not count: names are made of the volume and
    the node, and come again.

    Args:
        client: the official client.
        attachment: its name.
        uid: its UID; None to take the first one seen for the one that is meant.
        **options: `timeout` (default: `pv_delete`, 5 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitTimeout: it did not come within the limit.

    Source: volume/fixtures.go WaitForVolumeAttachmentTerminated.
    """
    _wait(client, volume_attachment_terminated(attachment, uid), options, "pv_delete")


def _attachment_condition(attachment: str, goal: ObjectGoal) -> NamedObject:
    name = check_name("attachment", attachment)
    return NamedObject(VOLUME_ATTACHMENTS, None, name, goal, _describe_attachment)


def _describe_finalizers(obj: Obj, finalizer: str) -> str:
    return _error(obj, "detachError")


def _wait(client: ApiClient, condition: Condition, options: WaitOptions, timeout: str) -> Any:
    settings = resolve_options(options, timeout=timeout)
    return wait_for_condition(Session.of(client), condition, settings)
