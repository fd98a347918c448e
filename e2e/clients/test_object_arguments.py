"""Waits and verbs that are given objects and models of the official client instead of names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import kubernetes.client

from e2e.objects import pod
from e2e.raising import raises
from pytest_kwait import InvalidArgument

if TYPE_CHECKING:
    from pytest_kwait import Kwait


def test_pods_as_models_and_dicts(kwait: Kwait) -> None:
    (made,) = kwait.create(pod("web", labels={"app": "web"}))
    core = kubernetes.client.CoreV1Api(kwait.client)

    assert kwait.wait_for_pod_ready(made)["metadata"]["uid"] == made["metadata"]["uid"]
    model = core.read_namespaced_pod("web", kwait.namespace)
    assert kwait.wait_for_pod_ready(model)["metadata"]["name"] == "web"
    listed = core.list_namespaced_pod(kwait.namespace)
    assert len(kwait.wait_for(listed, "condition=Ready")) == 1
    with raises(InvalidArgument, "its namespace is .*, and namespace='default' is given"):
        kwait.wait_for_pod_ready(model, namespace="default")

    kwait.delete("pod/web")
    again = kwait.create(pod("web"))[0]
    kwait.wait_for_pod_not_found(model)
    assert kwait.wait_for_pod_ready(again)["metadata"]["uid"] != made["metadata"]["uid"]
