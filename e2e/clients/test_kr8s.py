"""kr8s: objects that know what to do with themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

kr8s = pytest.importorskip("kr8s", reason="kr8s is not installed")

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# It knows versions up to the one that it was released beside, and warns of others.
pytestmark = pytest.mark.filterwarnings("ignore:Kubernetes version .* is not supported")


@pytest.fixture
def api(kubeconfig: Path, kwait_namespace: str) -> Iterator[Any]:
    api = kr8s.api(kubeconfig=str(kubeconfig), namespace=kwait_namespace)
    yield api
    # It has no way of its own to close its connections.
    pytest.importorskip("kr8s._async_utils").Portal().call(api._session.aclose)


def test_objects(api: Any) -> None:
    settings = kr8s.objects.ConfigMap({"metadata": {"name": "a"}, "data": {"k": "1"}}, api=api)
    assert not settings.exists()
    settings.create()
    assert settings.exists()
    settings.label(tier="x")
    settings.annotate(note="y")
    settings.patch({"data": {"l": "2"}})
    assert (settings.raw.data, settings.labels) == ({"k": "1", "l": "2"}, {"tier": "x"})
    (found,) = api.get("configmaps", label_selector={"tier": "x"})
    assert found.annotations["note"] == "y"
    (named,) = api.get("cm", "a")
    assert named.metadata.uid == settings.metadata.uid
    settings.delete()
    settings.wait("delete", timeout=30)
    assert not settings.exists()
    with pytest.raises(kr8s.NotFoundError):
        settings.refresh()


def test_a_pod(api: Any, talker: dict[str, Any]) -> None:
    pod = kr8s.objects.Pod(talker, api=api)
    pod.create()
    pod.wait("condition=Ready", timeout=60)
    assert pod.ready()
    assert list(pod.logs()) == ["one", "two"]
    ran = pod.exec(["sh", "-c", "echo out; echo err >&2; exit 3"], check=False)
    assert (ran.stdout, ran.stderr, ran.returncode) == (b"out\n", b"err\n", 3)
    (found,) = api.get("pods", field_selector={"status.phase": "Running"})
    assert found.name == "talker"
    pod.delete()
    pod.wait("delete", timeout=60)


def test_a_deployment_is_scaled(api: Any, talker: dict[str, Any]) -> None:
    pod = {
        "metadata": {"labels": {"app": "web"}},
        "spec": talker["spec"] | {"restartPolicy": "Always"},
    }
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": pod}
    web = kr8s.objects.Deployment({"metadata": {"name": "web"}, "spec": spec}, api=api)
    web.create()
    web.wait("condition=Available", timeout=60)
    web.scale(2)
    web.wait("jsonpath='{.status.readyReplicas}'=2", timeout=60)
    assert len(web.pods()) == 2


def test_a_kind_that_is_not_built_in(api: Any, group: str) -> None:
    kind = kr8s.objects.new_class("Greeting", version=f"{group}/v1", asyncio=False)
    greeting = kind({"metadata": {"name": "hello"}, "spec": {"text": "hello"}}, api=api)
    greeting.create()
    greeting.patch({"spec": {"copies": 3}})
    assert (greeting.spec.copies, greeting.metadata.generation) == (3, 2)
    assert [found.name for found in api.get(f"greetings.{group}")] == ["hello"]


def test_who_and_where_one_is(api: Any) -> None:
    assert api.version()["major"] == "1"
    assert api.whoami()
    names = {resource["name"] for resource in api.api_resources()}
    assert {"pods", "deployments", "customresourcedefinitions"} <= names
    with pytest.raises(ValueError, match="Kind nothings not found"):
        list(api.get("nothings"))
