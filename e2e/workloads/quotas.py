"""A quota that is enforced."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kwait import Kwait


def hold_to_quota(kwait: Kwait, **hard: str) -> None:
    """Create a quota, and return once the server enforces it."""
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}}
    kwait.create({**quota, "spec": {"hard": hard}})
    kwait.wait_for("resourcequota/few", "jsonpath={.status.hard}", timeout="4m")
