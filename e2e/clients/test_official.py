"""The official client: typed, dynamic, watching, executing."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes import client, dynamic, stream, watch
from kubernetes.dynamic.exceptions import ConflictError, NotFoundError, ResourceNotFoundError

from e2e.clients.custom import once_groups_rest

if TYPE_CHECKING:
    from pathlib import Path

# Neither has types.
Watch: Any = watch.Watch
DynamicClient: Any = dynamic.DynamicClient


@pytest.fixture
def core(kwait_client: client.ApiClient) -> Any:
    return client.CoreV1Api(kwait_client)


def settings(name: str, **data: str) -> Any:
    metadata = client.V1ObjectMeta(name=name, labels={"set": "mine"})
    return client.V1ConfigMap(metadata=metadata, data=data)


def test_typed_objects(core: Any, kwait_namespace: str) -> None:
    made = core.create_namespaced_config_map(kwait_namespace, settings("a", k="1"))
    assert made.metadata.uid
    assert made.metadata.creation_timestamp.tzinfo is not None

    patched = core.patch_namespaced_config_map("a", kwait_namespace, {"data": {"l": "2"}})
    assert patched.data == {"k": "1", "l": "2"}

    with pytest.raises(client.ApiException) as stale:
        core.replace_namespaced_config_map("a", kwait_namespace, made)
    assert (stale.value.status, stale.value.reason) == (409, "Conflict")
    patched.data = {"m": "3"}
    assert core.replace_namespaced_config_map("a", kwait_namespace, patched).data == {"m": "3"}

    with pytest.raises(client.ApiException) as twice:
        core.create_namespaced_config_map(kwait_namespace, settings("a"))
    assert (twice.value.status, twice.value.reason) == (409, "Conflict")

    core.create_namespaced_config_map(kwait_namespace, settings("b"))
    page = core.list_namespaced_config_map(kwait_namespace, label_selector="set=mine", limit=1)
    rest = core.list_namespaced_config_map(
        kwait_namespace, label_selector="set=mine", limit=1, _continue=page.metadata._continue
    )
    assert [item.metadata.name for item in page.items + rest.items] == ["a", "b"]

    core.delete_namespaced_config_map("b", kwait_namespace)
    core.delete_collection_namespaced_config_map(kwait_namespace, label_selector="set=mine")
    with pytest.raises(client.ApiException) as gone:
        core.read_namespaced_config_map("a", kwait_namespace)
    assert gone.value.status == 404


def test_a_deployment_is_watched_until_it_is_ready(
    core: Any, kwait_client: client.ApiClient, kwait_namespace: str
) -> None:
    apps: Any = client.AppsV1Api(kwait_client)
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels={"app": "web"}),
        spec=client.V1PodSpec(
            termination_grace_period_seconds=0,
            containers=[
                client.V1Container(name="main", image="busybox:1.36", command=["sleep", "300"])
            ],
        ),
    )
    spec = client.V1DeploymentSpec(
        replicas=2,
        selector=client.V1LabelSelector(match_labels={"app": "web"}),
        template=template,
    )
    metadata = client.V1ObjectMeta(name="web")
    made = apps.create_namespaced_deployment(
        kwait_namespace, client.V1Deployment(metadata=metadata, spec=spec)
    )

    events = Watch().stream(
        apps.list_namespaced_deployment,
        kwait_namespace,
        resource_version=made.metadata.resource_version,
        timeout_seconds=60,
    )
    assert any(event["object"].status.ready_replicas == 2 for event in events)
    events.close()
    pods = core.list_namespaced_pod(kwait_namespace, label_selector="app=web").items
    assert [pod.status.phase for pod in pods] == ["Running", "Running"]
    assert all(pod.status.container_statuses[0].state.running.started_at for pod in pods)

    # Every field that a model demands is there, in each list that has something.
    (replica_set,) = apps.list_namespaced_replica_set(kwait_namespace).items
    assert replica_set.metadata.owner_references[0].uid == made.metadata.uid
    assert core.list_node().items[0].status.node_info.kubelet_version
    reasons = {event.reason for event in core.list_namespaced_event(kwait_namespace).items}
    assert {"ScalingReplicaSet", "SuccessfulCreate", "Scheduled"} <= reasons

    scale = apps.patch_namespaced_deployment_scale(
        "web", kwait_namespace, {"spec": {"replicas": 1}}
    )
    assert scale.spec.replicas == 1


def test_logs_and_commands_of_a_pod(
    core: Any, kwait_namespace: str, talker: dict[str, Any]
) -> None:
    core.create_namespaced_pod(kwait_namespace, talker)
    events = Watch().stream(core.list_namespaced_pod, kwait_namespace, timeout_seconds=60)
    assert any(event["object"].status.phase == "Running" for event in events)
    events.close()
    lines = Watch().stream(core.read_namespaced_pod_log, "talker", kwait_namespace, follow=True)
    assert [next(lines), next(lines)] == ["one", "two"]
    lines.close()

    command = ["sh", "-c", "echo out; echo err >&2; exit 3"]
    ran: Any = stream.stream(
        core.connect_get_namespaced_pod_exec,
        "talker",
        kwait_namespace,
        command=command,
        stdout=True,
        stderr=True,
        stdin=False,
        tty=False,
        _preload_content=False,
    )
    ran.run_forever(timeout=60)
    ran.close()
    assert (ran.read_stdout(), ran.read_stderr(), ran.returncode) == ("out\n", "err\n", 3)


def test_the_dynamic_client_finds_every_kind(
    kwait_client: client.ApiClient, kwait_namespace: str, group: str, tmp_path: Path
) -> None:
    found = DynamicClient(kwait_client, cache_file=str(tmp_path / "discovery"))
    kinds = found.resources.get(api_version=f"{group}/v1", kind="Greeting")
    assert (kinds.name, kinds.namespaced) == ("greetings", True)
    body = {
        "apiVersion": f"{group}/v1",
        "kind": "Greeting",
        "metadata": {"name": "hello"},
        "spec": {"text": "hello"},
    }
    made = kinds.create(body=body, namespace=kwait_namespace)
    assert (made.spec.text, made.spec.copies, made.metadata.generation) == ("hello", 1, 1)
    patched = kinds.patch(
        name="hello",
        namespace=kwait_namespace,
        body={"spec": {"copies": 2}},
        content_type="application/merge-patch+json",
    )
    assert patched.spec.copies == 2
    updated = kinds.status.patch(
        name="hello",
        namespace=kwait_namespace,
        body={"status": {"said": True}},
        content_type="application/merge-patch+json",
    )
    assert (updated.status.said, updated.metadata.generation) == (True, 2)
    event = next(kinds.watch(namespace=kwait_namespace, timeout=60))
    assert (event["type"], event["object"].metadata.name) == ("ADDED", "hello")


def test_the_dynamic_client_applies_on_the_server(
    kwait_client: client.ApiClient, kwait_namespace: str, tmp_path: Path
) -> None:
    caches = map(str, itertools.count())
    maps = once_groups_rest(
        lambda: DynamicClient(kwait_client, cache_file=str(tmp_path / next(caches))).resources.get(
            api_version="v1", kind="ConfigMap"
        ),
        (ResourceNotFoundError, NotFoundError),
    )
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": kwait_namespace},
        "data": {"k": "1"},
    }
    maps.server_side_apply(body=body, field_manager="one")
    with pytest.raises(ConflictError, match="Apply failed with 1 conflict: conflict with"):
        maps.server_side_apply(body=body | {"data": {"k": "2"}}, field_manager="two")
    taken = maps.server_side_apply(
        body=body | {"data": {"k": "2"}}, field_manager="two", force_conflicts=True
    )
    assert taken.data.k == "2"
