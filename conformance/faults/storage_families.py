"""Waits on claims, volumes and attachments."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from conformance.faults.family import POLL, Family
from e2e.objects import attachment, claim, volume
from pytest_kwait import (
    wait_for_persistent_volume_claim_deleted,
    wait_for_persistent_volume_claim_phase,
    wait_for_persistent_volume_phase,
    wait_for_volume_attachment_attached,
)
from pytest_kwait.client.resource import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    VOLUME_ATTACHMENTS,
)

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from conformance.faults.family import Place

_CLASS = "kwait-by-hand"
"""A missing class, so that only the test creates volumes of it."""


class ClaimWait(Family):
    """A claim that gets its volume."""

    title = "phase of a claim"

    def __init__(self, place: Place, name: str) -> None:
        super().__init__(place, name)
        self.volume = f"kwait-faults-{secrets.token_hex(4)}"

    def prepare(self) -> None:
        """Create a claim of a missing volume."""
        made = claim(self.name, _CLASS, volumeName=self.volume)
        self.place.create(PERSISTENT_VOLUME_CLAIMS, made)

    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Wait until it is Bound."""
        return wait_for_persistent_volume_claim_phase(
            client, self.place.namespace, self.name, "Bound", timeout=timeout, poll=POLL
        )

    def fulfill(self) -> None:
        """Create the volume, reserved for it; without a controller, write that both are bound."""
        kept = {"namespace": self.place.namespace, "name": self.name}
        self.place.create(PERSISTENT_VOLUMES, volume(self.volume, _CLASS, claimRef=kept))
        self.place.patch_status(PERSISTENT_VOLUME_CLAIMS, self.name, {"phase": "Bound"})

    def is_expected_result(self, result: Any) -> bool:
        """The claim, bound."""
        return bool(result["status"]["phase"] == "Bound")

    def dispose(self) -> None:
        """Delete the volume."""
        self.place.remove(PERSISTENT_VOLUMES, self.volume)


class ClaimDeletionWait(ClaimWait):
    """A claim that is deleted."""

    title = "deletion of a claim"

    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Wait until it is gone."""
        return wait_for_persistent_volume_claim_deleted(
            client, self.place.namespace, self.name, timeout=timeout, poll=POLL
        )

    def fulfill(self) -> None:
        """Delete it."""
        self.place.delete(PERSISTENT_VOLUME_CLAIMS, self.name)

    def is_expected_result(self, result: Any) -> bool:
        """Nothing."""
        return result is None


class VolumeWait(Family):
    """A volume that becomes available."""

    title = "phase of a volume"

    def __init__(self, place: Place, name: str) -> None:
        super().__init__(place, f"kwait-faults-{secrets.token_hex(4)}")

    def prepare(self) -> None:
        """Leave it to be made later."""

    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Wait until it is Available."""
        return wait_for_persistent_volume_phase(
            client, self.name, "Available", timeout=timeout, poll=POLL
        )

    def fulfill(self) -> None:
        """Create it; without a controller, write that it is available."""
        self.place.create(PERSISTENT_VOLUMES, volume(self.name, _CLASS))
        self.place.patch_status(PERSISTENT_VOLUMES, self.name, {"phase": "Available"})

    def is_expected_result(self, result: Any) -> bool:
        """The volume."""
        return bool(result["status"]["phase"] == "Available")

    def dispose(self) -> None:
        """Delete it."""
        self.place.remove(PERSISTENT_VOLUMES, self.name)


class AttachmentWait(VolumeWait):
    """A volume that is attached."""

    title = "volume attachment"

    def prepare(self) -> None:
        """Create an attachment without an attacher."""
        made = attachment(self.name, "nothing", self.place.node)
        self.place.create(VOLUME_ATTACHMENTS, made)

    def wait(self, client: ApiClient, timeout: float) -> Any:
        """Wait until it is attached."""
        return wait_for_volume_attachment_attached(client, self.name, timeout=timeout, poll=POLL)

    def fulfill(self) -> None:
        """Write that it is attached."""
        self.place.patch_status(VOLUME_ATTACHMENTS, self.name, {"attached": True})

    def is_expected_result(self, result: Any) -> bool:
        """The attachment."""
        return bool(result["status"]["attached"])

    def dispose(self) -> None:
        """Delete it."""
        self.place.remove(VOLUME_ATTACHMENTS, self.name)


STORAGE_FAMILIES: tuple[type[Family], ...] = (
    ClaimWait,
    ClaimDeletionWait,
    VolumeWait,
    AttachmentWait,
)
