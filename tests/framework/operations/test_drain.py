"""Taints, evictions and the pods that a drain selects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_kwait.errors import ApiError, InvalidArgument, WaitFailed, WaitTimeout
from pytest_kwait.framework.operations.drain import drain, evict, taint, taints_change
from pytest_kwait.testing import FakeClock
from pytest_kwait.wait import Canceled
from tests.suite.fakes import FakeClient, FakeTransport

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

NODE = "/api/v1/nodes/n1"
PODS = "/api/v1/namespaces/ci-1/pods"
REFUSED = ApiError(
    "Cannot evict pod as it would violate the pod's disruption budget.",
    status=429,
    reason="TooManyRequests",
    body={
        "details": {
            "causes": [
                {
                    "reason": "DisruptionBudget",
                    "message": "The disruption budget web needs 1 healthy pods and has 1 currently",
                }
            ]
        }
    },
)


@pytest.fixture
def transport() -> FakeTransport:
    transport = FakeTransport()
    metadata = {"name": "n1", "uid": "uid-n1", "resourceVersion": "1"}
    transport.objects[NODE] = {"metadata": metadata, "spec": {}}
    budget = "/apis/policy/v1/namespaces/ci-1/poddisruptionbudgets/web"
    transport.objects[budget] = {"metadata": {"name": "web", "namespace": "ci-1"}}
    return transport


@pytest.fixture
def client(transport: FakeTransport) -> ApiClient:
    return cast("ApiClient", FakeClient(transport))


def put_pod(transport: FakeTransport, name: str, owner: str = "ReplicaSet", **parts: Any) -> None:
    metadata: dict[str, Any] = {"name": name, "namespace": "ci-1", "uid": f"uid-{name}"}
    if owner:
        reference = {"kind": owner, "name": "owner", "uid": "uid-owner", "controller": True}
        metadata["ownerReferences"] = [reference]
    metadata |= parts.pop("metadata", {})
    status = {"phase": parts.pop("phase", "Running")}
    transport.objects[f"{PODS}/{name}"] = {"metadata": metadata, "spec": parts, "status": status}


def put_daemon_set(transport: FakeTransport) -> None:
    path = "/apis/apps/v1/namespaces/ci-1/daemonsets/owner"
    transport.objects[path] = {"metadata": {"name": "owner", "namespace": "ci-1"}}


@pytest.mark.parametrize(
    ("present", "given", "expected"),
    [
        ([], "a=1:NoSchedule", ["a=1:NoSchedule"]),
        ([], ["a:NoExecute", "a:NoSchedule"], ["a=:NoExecute", "a=:NoSchedule"]),
        (["a=1:NoSchedule", "a=1:NoExecute"], "a:NoSchedule-", ["a=1:NoExecute"]),
        (["a=1:NoSchedule", "b=1:NoExecute"], "a-", ["b=1:NoExecute"]),
    ],
)
def test_taints(present: list[str], given: Any, expected: list[str]) -> None:
    node: dict[str, Any] = {"metadata": {}, "spec": {}}
    if present:
        node = taints_change(present, overwrite=False)(node)

    changed = taints_change(given, overwrite=False)(node)

    assert [
        f"{each['key']}={each.get('value', '')}:{each['effect']}"
        for each in changed["spec"].get("taints", ())
    ] == expected


_VALID = "use 'key=value:NoSchedule', 'key:NoSchedule', 'key:NoSchedule-' or 'key-'"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], f"taints=[] is not valid: {_VALID}"),
        (
            "a=1:Sometimes",
            f"taints='a=1:Sometimes' is not valid: {_VALID}; effects are NoSchedule, "
            "PreferNoSchedule, NoExecute",
        ),
        (
            ["a=1:NoSchedule", "a=2:NoSchedule"],
            "taints='a=2:NoSchedule' is not valid: name each key and effect once",
        ),
        ("gone-", "taints='gone-' is not valid: the node has no taint gone"),
        (
            "old=2:NoSchedule",
            "taints='old=2:NoSchedule' is not valid: the node has old:NoSchedule already, which "
            "overwrite=True replaces",
        ),
    ],
)
def test_taints_that_are_refused(
    client: ApiClient, transport: FakeTransport, given: Any, said: str
) -> None:
    old = {"key": "old", "value": "1", "effect": "NoSchedule"}
    transport.objects[NODE]["spec"]["taints"] = [old]

    with pytest.raises(InvalidArgument) as caught:
        taint(client, "n1", given)

    assert str(caught.value) == said


def test_a_budget_that_refuses_is_named(transport: FakeTransport) -> None:
    client = cast("ApiClient", FakeClient(transport, FakeClock()))
    put_pod(transport, "a")
    transport.refuse("POST", f"{PODS}/a/eviction", *[REFUSED] * 50)

    with pytest.raises(WaitTimeout) as caught:
        evict(client, "ci-1", "a", timeout=0.3, poll=0.1)

    said = str(caught.value)
    assert said.startswith("pod ci-1/a could not be evicted within 300ms: ")
    assert said.endswith(
        "ms: pod ci-1/a is blocked by PodDisruptionBudget ci-1/web: The disruption budget web "
        "needs 1 healthy pods and has 1 currently"
    )


def test_an_eviction_that_is_refused_can_be_stopped(transport: FakeTransport) -> None:
    clock = FakeClock()
    put_pod(transport, "a")
    transport.refuse("POST", f"{PODS}/a/eviction", *[REFUSED] * 50)
    started = clock.monotonic()

    with pytest.raises(Canceled, match=r"^the wait was stopped$"):
        evict(
            cast("ApiClient", FakeClient(transport, clock)),
            "ci-1",
            "a",
            timeout="1m",
            poll="5s",
            stop=lambda: clock.monotonic() - started > 7,
        )

    assert clock.monotonic() - started < 8


def test_several_budgets_are_final(client: ApiClient, transport: FakeTransport) -> None:
    text = (
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not "
        "support."
    )
    put_pod(transport, "a")
    transport.refuse("POST", f"{PODS}/a/eviction", ApiError(text, status=500))

    with pytest.raises(WaitFailed) as caught:
        evict(client, "ci-1", "a", timeout=5)

    assert str(caught.value) == f"pod ci-1/a cannot be evicted: pod ci-1/a: {text}"


REFUSALS: dict[str, tuple[dict[str, Any], str]] = {
    "no controller": (
        {"owner": ""},
        "force=False is not valid: node n1 has pods without a controller: ci-1/a; force=True "
        "evicts them, and they do not come back",
    ),
    "data": (
        {"volumes": [{"name": "data", "emptyDir": {}}]},
        "delete_empty_dir_data=False is not valid: node n1 has pods with emptyDir volumes: "
        "ci-1/a; delete_empty_dir_data=True evicts them, and their data is lost",
    ),
    "a daemon": (
        {"owner": "DaemonSet"},
        "ignore_daemon_sets=False is not valid: node n1 has pods of DaemonSets: ci-1/a; "
        "ignore_daemon_sets=True leaves them",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_pods_that_need_consent(client: ApiClient, transport: FakeTransport, name: str) -> None:
    parts, said = REFUSALS[name]
    put_pod(transport, "a", **parts)
    put_daemon_set(transport)

    with pytest.raises(InvalidArgument) as caught:
        drain(client, "n1")

    assert str(caught.value) == said
    assert transport.objects[NODE]["spec"] == {"unschedulable": True}


def test_daemons_and_mirrors_stay(client: ApiClient, transport: FakeTransport) -> None:
    put_pod(transport, "daemon", "DaemonSet")
    put_pod(
        transport, "static", "Node", metadata={"annotations": {"kubernetes.io/config.mirror": ""}}
    )
    put_daemon_set(transport)

    drain(client, "n1", ignore_daemon_sets=True)

    assert not [each for each in transport.requests if each.startswith("POST")]
