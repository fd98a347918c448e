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
def story() -> Timeline:
    story = Timeline()
    taints = [{"key": "a", "effect": "NoExecute"}]
    story.observe("ADDED", _object("Node", NODE, spec={"taints": taints}))
    about = {"kind": "Node", "name": NODE}
    told = {"involvedObject": about, "type": "Normal", "reason": "NodeNotReady"}
    story.observe("ADDED", _object("Event", "e") | told)
    status = {
        "nominatedNodeName": NODE,
        "ephemeralContainerStatuses": [
            {"name": "e", "restartCount": 2, "state": {"terminated": ENDED}}
        ],
    }
    story.observe("ADDED", _object("Pod", "p", status=status))
    return story


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
def test_milestones_that_hold(story: Timeline, wish: str, holds: bool) -> None:
    assert story.holds(wish) is holds


def test_node_names_are_normalized(story: Timeline) -> None:
    assert sorted(story.objects()) == ["node/{ns}", "pod/p"]
    assert story.events() == {"node/{ns}": {"Normal NodeNotReady"}}
