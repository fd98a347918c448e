"""Resizing a running pod: the patch, the chosen container, refused sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_kwait.errors import ApiError, InvalidArgument
from pytest_kwait.framework.operations.resize import resize
from tests.suite.fakes import FakeClient, FakeTransport

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

POD = "/api/v1/namespaces/ci-1/pods/web"


@pytest.fixture
def transport() -> FakeTransport:
    transport = FakeTransport()
    put_pod(transport, ["main"])
    return transport


@pytest.fixture
def client(transport: FakeTransport) -> ApiClient:
    return cast("ApiClient", FakeClient(transport))


def put_pod(transport: FakeTransport, names: list[str], **more: Any) -> None:
    metadata = {"name": "web", "namespace": "ci-1", "uid": "uid-web", "resourceVersion": "1"}
    spec = {"containers": [{"name": name} for name in names], **more}
    transport.objects[POD] = {"kind": "Pod", "metadata": metadata, "spec": spec}


def resized_containers(transport: FakeTransport, field: str = "containers") -> Any:
    """The containers of the patch that was sent."""
    return transport.objects[f"{POD}/resize"]["spec"][field]


def test_the_only_container(client: ApiClient, transport: FakeTransport) -> None:
    transport.objects[f"{POD}/resize"] = dict(transport.objects[POD])

    resize(client, "ci-1", "pod/web", requests={"memory": "64Mi", "cpu": 0.5}, limits={"cpu": 1})

    assert transport.requests == [f"GET {POD}", f"PATCH {POD}/resize"]
    resources = {"requests": {"memory": "64Mi", "cpu": "0.5"}, "limits": {"cpu": "1"}}
    assert resized_containers(transport) == [{"name": "main", "resources": resources}]


def test_a_sidecar(client: ApiClient, transport: FakeTransport) -> None:
    put_pod(transport, ["main", "other"], initContainers=[{"name": "proxy"}])
    transport.objects[f"{POD}/resize"] = dict(transport.objects[POD])

    resize(client, "ci-1", "web", container="proxy", limits={"memory": "9Mi"})

    changed = [{"name": "proxy", "resources": {"limits": {"memory": "9Mi"}}}]
    assert resized_containers(transport, "initContainers") == changed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "arguments=[] is not valid: give requests, limits or both"),
        ({"limits": {}}, "arguments=[] is not valid: give requests, limits or both"),
        (
            {"requests": "64Mi"},
            "requests='64Mi' is not valid: use quantities by resource: "
            '{"memory": "64Mi", "cpu": "500m"}',
        ),
        (
            {"requests": {"memory": None}},
            "requests memory=None is not valid: use quantities by resource: "
            '{"memory": "64Mi", "cpu": "500m"}',
        ),
        (
            {"limits": {"cpu": "fast"}},
            "limits cpu='fast' is not valid: use quantities by resource: "
            '{"memory": "64Mi", "cpu": "500m"}',
        ),
        (
            {"container": "a", "limits": {"cpu": 1}},
            "container='a' is not valid: the pod has main, other, proxy",
        ),
        (
            {"limits": {"cpu": 1}},
            "container=None is not valid: the pod has several; name one of main, other, proxy",
        ),
    ],
)
def test_refused_arguments(
    client: ApiClient, transport: FakeTransport, arguments: Any, message: str
) -> None:
    put_pod(transport, ["main", "other"], initContainers=[{"name": "proxy"}])

    with pytest.raises(InvalidArgument) as caught:
        resize(client, "ci-1", "web", **arguments)

    assert str(caught.value) == message
    assert f"PATCH {POD}/resize" not in transport.requests


def test_a_refusal_of_the_server(client: ApiClient, transport: FakeTransport) -> None:
    refused = ApiError("Pod QOS Class may not change", status=422, reason="Invalid")
    transport.refuse("PATCH", f"{POD}/resize", refused)

    with pytest.raises(ApiError, match="QOS Class may not change"):
        resize(client, "ci-1", "web", requests={"memory": "64Mi"})
