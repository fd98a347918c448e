"""Objects and models of the official client in place of names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.client import (
    V1Deployment,
    V1DeploymentSpec,
    V1Job,
    V1LabelSelector,
    V1Namespace,
    V1NamespaceList,
    V1Node,
    V1ObjectMeta,
    V1Pod,
    V1PodList,
    V1PodTemplateSpec,
)

import pytest_kwait as kw
from pytest_kwait.client.resource import JOBS, NAMESPACES, NODES, PODS
from pytest_kwait.errors import InvalidArgument, WaitTimeout
from pytest_kwait.framework.named_objects import parse_object_argument
from pytest_kwait.framework.registry import WAITS, condition_of
from tests.objects import condition, created_job, job_pod

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.client.resource import Resource
    from tests.engine.fake_session import FakeSession

POD = V1Pod(metadata=V1ObjectMeta(name="web", namespace="ci-1", uid="uid-web"))
SPEC = V1DeploymentSpec(selector=V1LabelSelector(), template=V1PodTemplateSpec())
WIDGET = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        (PODS, POD, "web"),
        (PODS, {"metadata": {"name": "web"}}, "web"),
        (JOBS, {"kind": "Job", "metadata": {"name": "pi"}}, "pi"),
        (JOBS, V1Job(metadata=V1ObjectMeta(name="pi")), "pi"),
        (NODES, V1Node(metadata=V1ObjectMeta(name="n")), "n"),
        (NAMESPACES, V1Namespace(metadata=V1ObjectMeta(name="ci")), "ci"),
        (None, POD, "pod/web"),
        (None, WIDGET, "widget.v1.example.com/w"),
        (
            None,
            V1Deployment(api_version="apps/v1", metadata=V1ObjectMeta(name="web"), spec=SPEC),
            "deployment.v1.apps/web",
        ),
        (None, V1Job(metadata=V1ObjectMeta(name="pi")), "job/pi"),
        (None, V1PodList(items=[POD]), ["pod/web"]),
        (
            None,
            {"kind": "WidgetList", "apiVersion": "example.com/v1", "metadata": {}, "items": [
                {"metadata": {"name": "w"}}
            ]},
            ["widget.v1.example.com/w"],
        ),
        (None, [POD, "job/pi"], ["pod/web", "job/pi"]),
    ],
)  # fmt: skip
def test_the_name_of_an_object(kind: Resource | None, given: Any, value: Any) -> None:
    parsed = parse_object_argument("name", given, kind)
    assert parsed is not None
    assert parsed.value == value


@pytest.mark.parametrize("given", ["web", None, {"app": "web"}, {"verb": "get"}])
def test_other_values_are_left_alone(given: Any) -> None:
    assert parse_object_argument("name", given, PODS) is None


@pytest.mark.parametrize(
    ("argument", "kind", "given", "message"),
    [
        ("name", JOBS, POD, "name=<Pod web> is not valid: use a Job, or its name"),
        ("pod", PODS, V1Pod(metadata=V1ObjectMeta()), (
            "pod=<Pod without a name> is not valid: use a Pod with a name, or its name"
        )),
        ("target", None, {"metadata": {"name": "web"}}, (
            "target=<object web> is not valid: use an object with a name and a kind, or 'kind/name'"
        )),
    ],
)  # fmt: skip
def test_objects_that_name_nothing(
    argument: str, kind: Resource | None, given: Any, message: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_object_argument(argument, given, kind)
    assert str(caught.value) == message


def test_waits_take_objects(
    client: ApiClient, session: FakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "resolve", lambda kind, **_: PODS)
    session.put(PODS, job_pod("web", conditions=[condition("Ready")]))
    session.put(JOBS, created_job("pi", status={"conditions": [condition("Complete")]}))
    session.put(NODES, {"metadata": {"name": "n"}, "status": {"conditions": [condition("Ready")]}})
    wait: Any = kw.wait_for_pod_running
    assert wait(client, "ci-1", POD)["metadata"]["name"] == "web"
    assert wait(client, namespace="ci-1", name=POD.to_dict())["metadata"]["name"] == "web"
    general: Any = kw.wait_for
    assert general(client, "ci-1", POD, "condition=Ready")["metadata"]["name"] == "web"
    assert len(general(client, "ci-1", V1PodList(items=[POD]), "condition=Ready")) == 1
    finished: Any = kw.wait_for_job_complete
    assert finished(client, "ci-1", V1Job(metadata=V1ObjectMeta(name="pi")))
    ready: Any = kw.wait_for_node_ready
    assert ready(client, V1Node(metadata=V1ObjectMeta(name="n")))


def test_an_object_of_another_namespace(client: ApiClient, session: FakeSession) -> None:
    wait: Any = kw.wait_for_pod_running
    with pytest.raises(InvalidArgument) as caught:
        wait(client, "ci-2", POD)
    assert str(caught.value) == (
        "name='Pod web' is not valid: its namespace is 'ci-1', and namespace='ci-2' is given"
    )


def test_an_object_is_gone_by_its_uid(client: ApiClient, session: FakeSession) -> None:
    """A later one of the same name has another."""
    session.put(PODS, job_pod("web", metadata={"uid": "uid-other"}))
    gone: Any = kw.wait_for_pod_not_found
    gone(client, "ci-1", POD, timeout=5)


@pytest.mark.parametrize(
    "namespace",
    [V1Namespace(metadata=V1ObjectMeta(name="ci-1", uid="uid-ns")), "namespace/ci-1", "ns/ci-1"],
    ids=["model", "kind", "short kind"],
)
def test_an_object_in_a_namespace_that_is_an_object(
    client: ApiClient, session: FakeSession, namespace: Any
) -> None:
    session.put(PODS, job_pod("web", metadata={"uid": "uid-web"}))
    running: Any = kw.wait_for_pod_running
    assert running(client, namespace, POD)["metadata"]["name"] == "web"
    gone: Any = kw.wait_for_pod_not_found
    # The UID of the namespace is not that of the pod.
    with pytest.raises(WaitTimeout):
        gone(client, namespace, "web", timeout="10ms")


def test_namespaces_are_taken_as_models() -> None:
    made = [V1Namespace(metadata=V1ObjectMeta(name=name)) for name in ("a", "b")]
    for given in (made, V1NamespaceList(items=made)):
        assert condition_of(kw.wait_for_namespaces_deleted)(given).subject == "namespaces a, b"


def test_markers_take_objects_of_any_namespace() -> None:
    """Theirs is known only when the test is set up."""
    WAITS["wait_for_pod_running"].check(POD)
    WAITS["wait_for"].check(POD, "condition=Ready")
    with pytest.raises(InvalidArgument):
        WAITS["wait_for_job_complete"].check(POD)


def test_an_argument_that_is_given_twice() -> None:
    wait: Any = kw.wait_for_pod_running
    with pytest.raises(TypeError, match="multiple values for argument 'name'"):
        wait(None, "ci-1", POD, name=POD)
