"""Sample workloads as JSON, and helpers that feed them to conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from pytest_kwait.client.resource import DEPLOYMENTS, PODS, REPLICA_SETS
from tests.objects import owned_pod

if TYPE_CHECKING:
    from pytest_kwait.engine.condition import Condition
    from tests.engine.fake_session import FakeSession

Obj = dict[str, Any]

LABELS = {"app": "web"}


def stuck(owner: str, name: str, reason: str = "InvalidImageName") -> Obj:
    """Return a pod of which the only container waits for a reason."""
    return owned_pod(owner, name, "Pending", waiting=(reason, "nope"))


def enter(awaited: Condition, *objects: Obj, position: int = 0) -> None:
    """Show objects to the book of one of the condition's sources."""
    for obj in objects:
        uid = f"uid-{obj['metadata']['name']}"
        whole = {**obj, "metadata": {"uid": uid, **obj["metadata"]}}
        book = awaited.sources()[position].sink
        book.put(whole, msgspec.json.encode(whole), 0.0)


def show(session: FakeSession, made: Obj, sets: list[Obj], pods: list[Obj]) -> None:
    """Put a Deployment with what it owns on a server."""
    session.put(DEPLOYMENTS, made)
    for each in sets:
        session.put(REPLICA_SETS, each)
    for each in pods:
        session.put(PODS, each)
