"""lightkube: typed objects, waits by conditions, server-side apply."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait import wait

lightkube = pytest.importorskip("lightkube", reason="lightkube is not installed")
ApiError = pytest.importorskip("lightkube.core.exceptions").ApiError
ObjectMeta = pytest.importorskip("lightkube.models.meta_v1").ObjectMeta
ScaleSpec = pytest.importorskip("lightkube.models.autoscaling_v1").ScaleSpec
ConfigMap = pytest.importorskip("lightkube.resources.core_v1").ConfigMap
Pod = pytest.importorskip("lightkube.resources.core_v1").Pod
Deployment = pytest.importorskip("lightkube.resources.apps_v1").Deployment
PatchType = pytest.importorskip("lightkube.types").PatchType
generic = pytest.importorskip("lightkube.generic_resource")

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def client(kubeconfig: Path, kwait_namespace: str) -> Iterator[Any]:
    config = lightkube.KubeConfig.from_file(str(kubeconfig))
    client = lightkube.Client(config=config, namespace=kwait_namespace, field_manager="mine")
    yield client
    client.close()


def settings(name: str, **data: str) -> Any:
    return ConfigMap(metadata=ObjectMeta(name=name, labels={"set": "mine"}), data=data)


def test_objects(client: Any) -> None:
    made = client.create(settings("a", k="1"))
    assert made.metadata.creationTimestamp is not None
    client.patch(ConfigMap, "a", {"data": {"l": "2"}})
    client.patch(ConfigMap, "a", {"data": {"k": None}}, patch_type=PatchType.MERGE)
    operation = {"op": "add", "path": "/data/m", "value": "3"}
    patched = client.patch(ConfigMap, "a", [operation], patch_type=PatchType.JSON)
    assert patched.data == {"l": "2", "m": "3"}
    with pytest.raises(ApiError) as stale:
        client.replace(made)
    assert (stale.value.status.code, stale.value.status.reason) == (409, "Conflict")
    client.create(settings("b"))
    selector = {"set": ["mine", "yours"]}
    listed = client.list(ConfigMap, labels=selector, chunk_size=1)
    assert [found.metadata.name for found in listed] == ["a", "b"]
    client.delete(ConfigMap, "a")
    with pytest.raises(ApiError) as gone:
        client.get(ConfigMap, "a")
    assert gone.value.status.reason == "NotFound"


def test_server_side_apply(client: Any) -> None:
    def applied(**data: str) -> Any:
        obj = settings("a", **data)
        obj.apiVersion, obj.kind = "v1", "ConfigMap"
        return obj

    client.apply(applied(k="1", l="2"))
    assert client.apply(applied(k="1")).data == {"k": "1"}
    with pytest.raises(ApiError) as conflict:
        client.apply(applied(k="2"), field_manager="other")
    assert conflict.value.status.reason == "Conflict"
    assert client.apply(applied(k="2"), field_manager="other", force=True).data == {"k": "2"}


def test_a_pod(client: Any, talker: dict[str, Any]) -> None:
    client.create(Pod.from_dict(talker))
    pod = client.wait(Pod, "talker", for_conditions=["Ready"], raise_for_conditions=["Failed"])
    assert pod.status.phase == "Running"
    lines = client.log("talker", follow=True)
    assert [next(lines), next(lines)] == ["one\n", "two\n"]
    command = ["sh", "-c", "echo out; echo err >&2; exit 3"]
    before = set(threading.enumerate())
    ran = client.exec("talker", command=command, stdout=True, stderr=True)
    # The reader of its WebSockets runs briefly after their end, and would read data of the
    # next connection if that has the same file descriptor.
    wait.poll_immediate("10ms", "4m", lambda: not set(threading.enumerate()) - before)
    assert (ran.stdout, ran.stderr, ran.exit_code) == ("out\n", "err\n", 3)
    client.delete(Pod, "talker")
    seen = client.watch(
        Pod, fields={"metadata.name": "talker"}, resource_version=pod.metadata.resourceVersion
    )
    assert next(event for event, _ in seen if event != "MODIFIED") == "DELETED"


def test_a_deployment_is_scaled(client: Any, talker: dict[str, Any]) -> None:
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": talker["spec"] | {"restartPolicy": "Always"},
        },
    }
    client.create(Deployment.from_dict({"metadata": {"name": "web"}, "spec": spec}))
    client.wait(Deployment, "web", for_conditions=["Available"])
    scale = Deployment.Scale(metadata=ObjectMeta(name="web"), spec=ScaleSpec(replicas=2))
    assert client.replace(scale).spec.replicas == 2


def test_a_kind_that_is_not_built_in(client: Any, group: str) -> None:
    kind = generic.create_namespaced_resource(group, "v1", "Greeting", "greetings")
    metadata = {"name": "hello"}
    made = client.create(kind(metadata=metadata, spec={"text": "hello"}))
    assert (made.spec["copies"], made.metadata.generation) == (1, 1)
    with pytest.raises(ApiError, match=r"is invalid: spec\.text: Required value"):
        client.create(kind(metadata={"name": "mute"}, spec={}))
    updated = kind.Status(metadata=made.metadata, status={"said": True})
    assert client.replace(updated)["status"] == {"said": True}
