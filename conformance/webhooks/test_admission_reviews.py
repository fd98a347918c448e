"""What webhooks are asked: the `request` of an AdmissionReview, as of a real server."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from e2e.cluster.webhook_server import Server, serving, webhook
from e2e.objects import deployment
from tools.raw_api import RawClient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait import Kwait

MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
AGENT = {"User-Agent": "tool/1.0"}

_CREATE = {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}
_UPDATE = {**_CREATE, "kind": "UpdateOptions"}
_DELETE = {**_CREATE, "kind": "DeleteOptions"}
_A: dict[str, Any] = {"metadata": {"name": "a"}}
_B: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}}

REQUESTS: tuple[tuple[str, str, Any, str, dict[str, Any]], ...] = (
    ("POST", "", _A, "", _CREATE),
    ("PUT", "/a", {**_A, "data": {"x": "1"}}, "", _UPDATE),
    (
        "PUT", "/a?fieldManager=m&dryRun=All&fieldValidation=Warn", {**_A, "data": {"x": "2"}}, "",
        {**_UPDATE, "fieldManager": "m", "dryRun": ["All"], "fieldValidation": "Warn"},
    ),
    ("PATCH", "/a", {"data": {"x": "3"}}, MERGE, _UPDATE),
    ("PATCH", "/a?fieldManager=m", {"data": {"x": "4"}}, MERGE, {**_UPDATE, "fieldManager": "m"}),
    (
        "PATCH", "/b?fieldManager=m", {**_B, "data": {"x": "1"}}, APPLY,
        {**_CREATE, "fieldManager": "m"},
    ),
    (
        "PATCH", "/b?fieldManager=n&force=true", {**_B, "data": {"x": "2"}}, APPLY,
        {**_UPDATE, "fieldManager": "n"},
    ),
    # It changes nothing.
    (
        "PATCH", "/b?fieldManager=n", {**_B, "data": {"x": "2"}}, APPLY,
        {**_UPDATE, "fieldManager": "n"},
    ),
    ("DELETE", "/a?gracePeriodSeconds=3", None, "", {**_DELETE, "gracePeriodSeconds": 3}),
)  # fmt: skip


@contextmanager
def reviewed(kwait: Kwait, *resources: str) -> Iterator[list[dict[str, Any]]]:
    """Yield the requests of which a webhook is asked about these resources."""
    asked: list[dict[str, Any]] = []

    def allow(request: dict[str, Any]) -> dict[str, Any]:
        asked.append(request)
        return {"allowed": True}

    with serving(Server(allow)) as server:
        made = webhook(server, kwait.namespace, failure_policy="Fail")
        rule = made["webhooks"][0]["rules"][0]
        rule["operations"], rule["resources"] = ["*"], [*resources, "secrets"]
        kwait.create(made)
        path = f"/api/v1/namespaces/{kwait.namespace}/secrets?dryRun=All"
        endpoint = RawClient(kwait.cluster.kubeconfig)

        def is_asked(_: Any) -> bool:
            endpoint.request("POST", path, {"metadata": {"name": "probe"}})
            return bool(asked)

        kwait.wait_for(f"namespace/{kwait.namespace}", is_asked, mode="poll", poll="200ms")
        asked.clear()
        try:
            yield asked
        finally:
            kwait.delete(f"validatingwebhookconfiguration/{kwait.namespace}")


def test_options_are_those_that_the_request_names(kwait: Kwait) -> None:
    """Neither the user agent nor a default stands for what is not given."""
    endpoint = RawClient(kwait.cluster.kubeconfig)
    path = f"/api/v1/namespaces/{kwait.namespace}/configmaps"
    with reviewed(kwait, "configmaps") as asked:
        for method, query, body, kind, options in REQUESTS:
            asked.clear()
            kind = kind or "application/json"
            answer = endpoint.request(method, path + query, body, content_type=kind, headers=AGENT)
            assert answer.status < 300, answer.text
            assert [request["options"] for request in asked] == [options], (method, query)


def test_objects_of_a_deleted_collection_have_no_name(kwait: Kwait) -> None:
    endpoint = RawClient(kwait.cluster.kubeconfig)
    path = f"/api/v1/namespaces/{kwait.namespace}/configmaps"
    kwait.create({**_B, "metadata": {"name": "b", "labels": {"l": "1"}}})
    with reviewed(kwait, "configmaps") as asked:
        endpoint.request("DELETE", f"{path}?labelSelector=l=1", headers=AGENT)
        (request,) = asked
    assert "name" not in request
    assert request["oldObject"]["metadata"]["name"] == "b"


@pytest.mark.parametrize("applied", [False, True], ids=["update", "apply"])
def test_a_validated_scale_is_that_of_the_changed_object(kwait: Kwait, applied: bool) -> None:
    """It has the identity of the object, and no managers."""
    endpoint = RawClient(kwait.cluster.kubeconfig)
    made = deployment("d")
    made["spec"] |= {"replicas": 0, "paused": True}
    kwait.create(made)
    scale: dict[str, Any] = {
        "apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": {"name": "d", "namespace": kwait.namespace}, "spec": {"replicas": 1},
    }  # fmt: skip
    path = (
        f"/apis/apps/v1/namespaces/{kwait.namespace}/deployments/d/scale?fieldManager=m&dryRun=All"
    )
    method, kind = ("PATCH", APPLY) if applied else ("PUT", "application/json")
    with reviewed(kwait, "deployments/scale") as asked:
        endpoint.request(
            method, f"{path}&force=true" if applied else path, scale, content_type=kind
        )
        request = asked[-1]
    assert request["subResource"] == "scale"
    assert request["options"] == {**_UPDATE, "fieldManager": "m", "dryRun": ["All"]}
    assert request["object"]["spec"] == {"replicas": 1}
    assert request["oldObject"]["spec"] == {}
    for seen in (request["object"], request["oldObject"]):
        names = {"name", "namespace", "uid", "resourceVersion", "creationTimestamp"}
        assert seen["metadata"].keys() == names
