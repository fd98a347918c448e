"""Scripted containers: exit codes, delays and image pull errors for one test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from e2e.raising import raises
from pytest_kwait import ClusterError, WaitFailed, WaitTimeout

if TYPE_CHECKING:
    from pytest_kwait import Kwait

Obj = dict[str, Any]


def app(**spec: Any) -> Obj:
    """A pod with an unknown program."""
    container = {"name": "app", "image": "example.com/app:1"}
    metadata = {"name": "p", "labels": {"app": "web"}}
    whole = {"containers": [container], "terminationGracePeriodSeconds": 0, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": whole}


@pytest.fixture(autouse=True)
def embedded(request: pytest.FixtureRequest, kwait: Kwait) -> None:
    real = "real" in request.node.name
    if (kwait.cluster.provider == "embedded") == real:
        pytest.skip("rules for pods are the embedded cluster's")


def test_script_sets_time_and_code_of_exits(kwait: Kwait) -> None:
    kwait.cluster.pods(label="app=web").run(for_="500ms", exit=3, message="no database")
    kwait.create(app(restartPolicy="Never"))
    pod = kwait.wait_for("pod/p", "jsonpath={.status.phase}=Failed")
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["message"]) == (3, "no database")


def test_a_wait_sees_an_image_that_cannot_be_pulled(kwait: Kwait) -> None:
    kwait.cluster.pods(name="p").pull_error("manifest unknown")
    kwait.create(app())
    with raises(WaitFailed, match="manifest unknown"):
        kwait.wait_for("pod/p", "condition=Ready", grace="1s", timeout="60s")


def test_a_rule_ends_with_its_block(kwait: Kwait) -> None:
    with kwait.cluster.pods(label="app=web").never_ready():
        kwait.create(app())
        kwait.wait_for("pod/p", "jsonpath={.status.phase}=Running")
        with raises(WaitTimeout, match="did not have condition Ready=True"):
            kwait.wait_for("pod/p", "condition=Ready", timeout="2s")
    kwait.delete("pod/p")
    kwait.create(app())
    kwait.wait_for("pod/p", "condition=Ready")


def test_a_real_cluster_refuses(kwait: Kwait) -> None:
    with raises(ClusterError, match="faults are made on the embedded cluster alone"):
        kwait.cluster.pods(label="app=web").crash_loop()
