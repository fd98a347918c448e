"""Webhooks see the writes of controllers; the cluster stays responsive meanwhile."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from e2e.cluster.webhook_server import Answer, Server, deny, serving, webhook

if TYPE_CHECKING:
    from pytest_kwait import Kwait


def web(replicas: int) -> dict[str, Any]:
    labels = {"app": "web"}
    containers = [{"name": "web", "image": "busybox", "command": ["sleep", "600"]}]
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": containers, "terminationGracePeriodSeconds": 0},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def test_a_webhook_that_reads_and_writes_the_cluster(kwait: Kwait) -> None:
    """Before it lets a pod in it looks around in the cluster, and leaves a note there."""
    asked: list[dict[str, Any]] = []

    def note(request: dict[str, Any]) -> Answer:
        if not request["dryRun"]:
            asked.append(request)
            seen = [one["metadata"]["name"] for one in kwait.list("rs")]
            metadata = {"generateName": "noted-", "labels": {"noted": "yes"}}
            data = {"seen": json.dumps(seen), "user": request["userInfo"]["username"]}
            note = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
            kwait.create(note)
        return {"allowed": True}

    with serving(Server(note)) as server:
        kwait.create(
            webhook(server, kwait.namespace, plural="pods", failure_policy="Fail", seconds=20)
        )
        name = f"validatingwebhookconfiguration/{kwait.namespace}"
        kwait.wait_for_webhook_ready(name, timeout="4m")
        kwait.create(web(3))
        kwait.wait_for("pod", "create", selector="app=web", count=3, timeout="4m")
    assert len(asked) == 3
    notes = kwait.list("cm", selector="noted=yes")
    assert [json.loads(one["data"]["seen"]) for one in notes] == [["web"]] * 3


def test_a_denied_pod_is_reported_by_its_owner(kwait: Kwait) -> None:
    with serving(Server(deny)) as server:
        kwait.create(webhook(server, kwait.namespace, plural="pods", failure_policy="Fail"))
        kwait.wait_for_webhook_ready(
            f"validatingwebhookconfiguration/{kwait.namespace}", timeout="4m"
        )
        kwait.create(web(2))
        condition = "jsonpath={.status.conditions[0].reason}=FailedCreate"
        found = kwait.wait_for("rs/web", condition, timeout="4m")
        refused = 'admission webhook "sunday.example.com" denied the request: not on a Sunday'
        assert found["status"]["conditions"][0]["message"] == refused
