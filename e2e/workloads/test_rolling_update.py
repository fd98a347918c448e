"""The blocking rolling update: one pod after another is deleted, and another one comes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from e2e.workloads.manifest import deployment
from e2e.workloads.sets import replication_controller
from pytest_kwait import rolling_update

if TYPE_CHECKING:
    from pytest_kwait import Bench


@pytest.mark.parametrize("made", [replication_controller("web", 2), deployment("web", 2)])
def test_all_pods_are_others(kwait: Bench, made: dict[str, Any]) -> None:
    """With `watch` it ends when the last one is back; by default that is looked at every 5 s."""
    kwait.create(made)
    kwait.wait_for("pods", "condition=Ready", selector="app=web", count=2)
    before = {each["metadata"]["uid"] for each in kwait.list("pods")}

    pods = kwait.rolling_update(f"{made['kind']}/web", "500ms", mode="watch")

    assert len(pods) == 2
    assert not before & {each["metadata"]["uid"] for each in pods}


def test_a_new_template_gets_into_the_pods(kwait: Bench) -> None:
    """A replication controller does not touch its pods when its template changes; this does."""
    kwait.create(replication_controller("web", 1))
    kwait.wait_for("pods", "condition=Ready", selector="app=web", count=1)
    changed = replication_controller("web", 1)
    changed["spec"]["template"]["metadata"]["labels"]["version"] = "2"
    kwait.apply(changed)
    assert kwait.list("pods", selector="version=2") == []

    (new,) = rolling_update(
        kwait.client, kwait.namespace, "rc/web", "100ms", poll="200ms", timeout="1m"
    )

    assert new["metadata"]["labels"]["version"] == "2"
