"""Objects as the sources of a condition report them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from pytest_kwait.engine.condition import Condition


def enter(awaited: Condition, *objects: dict[str, Any], position: int = 0) -> None:
    """Report objects of one of the condition's sources; a UID is made of an object's name."""
    for obj in objects:
        uid = f"uid-{obj['metadata']['name']}"
        whole = {**obj, "metadata": {"uid": uid, **obj["metadata"]}}
        awaited.sources()[position].sink.put(whole, msgspec.json.encode(whole), 0.0)
