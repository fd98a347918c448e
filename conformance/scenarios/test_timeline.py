"""Names of objects and milestones in timelines."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.scenarios.timeline import Timeline

NODE = "story-x-123456"
ENDED = {"reason": "Error", "exitCode": 3}


def _object(kind: str, name: str, **more: Any) -> dict[str, Any]:
    metadata = {"name": name, "uid": name, "resourceVersion": "1"}
    return {"kind": kind, "metadata": metadata, **more}


@pytest.fixture
def timeline() -> Timeline:
    timeline = Timeline()
    taints = [{"key": "a", "effect": "NoExecute"}]
    timeline.observe("ADDED", _object("Node", NODE, spec={"taints": taints}))
    about = {"kind": "Node", "name": NODE}
    event = {"involvedObject": about, "type": "Normal", "reason": "NodeNotReady"}
    timeline.observe("ADDED", _object("Event", "e") | event)
    status = {
        "nominatedNodeName": NODE,
        "ephemeralContainerStatuses": [
            {"name": "e", "restartCount": 2, "state": {"terminated": ENDED}}
        ],
    }
    timeline.observe("ADDED", _object("Pod", "p", status=status))
    return timeline


@pytest.mark.parametrize(
    ("wish", "holds"),
    [
        ("now node/{ns} there, tainted a:NoExecute", True),
        ("node/{ns} tainted a:NoSchedule", False),
        ("node/{ns} event Normal NodeNotReady", True),
        ("pod/p is promised a place", True),
        ("pod/p e terminated Error exit code 3", True),
        ("pod/p e restarts=1", False),
        ("pod/p e restarts>=1", True),
        ("pod/p e restarts>=3", False),
        ("2 pod/p there", False),
    ],
)
def test_milestones_that_hold(timeline: Timeline, wish: str, holds: bool) -> None:
    assert timeline.holds(wish) is holds


def test_node_names_are_normalized(timeline: Timeline) -> None:
    assert sorted(timeline.objects()) == ["node/{ns}", "pod/p"]
    assert timeline.events() == {"node/{ns}": {"Normal NodeNotReady"}}
