"""kr8s: objects with methods."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from e2e.clients.custom import once_groups_rest

kr8s = pytest.importorskip("kr8s", reason="kr8s is not installed")

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

T = TypeVar("T")

# It warns of server versions later than its release.
pytestmark = pytest.mark.filterwarnings("ignore:Kubernetes version .* is not supported")


@pytest.fixture
def api(
    kubeconfig: Path, kwait_namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    # It does not remove the files of certificates that it makes.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    api = kr8s.api(kubeconfig=str(kubeconfig), namespace=kwait_namespace)
    knowing_all_kinds(api.api_resources)
    yield api
    # It has no method to close its connections.
    pytest.importorskip("kr8s._async_utils").Portal().call(api._session.aclose)


def knowing_all_kinds(look: Callable[[], T]) -> T:
    """Return kr8s's result of full discovery; a lost group is an error or a warning."""
    texts = ("404 Not Found", "503 Service Unavailable")
    return once_groups_rest(look, (kr8s.ServerError, UserWarning), texts)


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
    settings.wait("delete", timeout=240)
    assert not settings.exists()
    with pytest.raises(kr8s.NotFoundError):
        settings.refresh()


def test_a_pod(api: Any, talker: dict[str, Any]) -> None:
    pod = kr8s.objects.Pod(talker, api=api)
    pod.create()
    pod.wait("condition=Ready", timeout=240)
    assert pod.ready()
    assert list(pod.logs()) == ["one", "two"]
    ran = pod.exec(["sh", "-c", "echo out; echo err >&2; exit 3"], check=False)
    assert (ran.stdout, ran.stderr, ran.returncode) == (b"out\n", b"err\n", 3)
    (found,) = api.get("pods", field_selector={"status.phase": "Running"})
    assert found.name == "talker"
    pod.delete()
    pod.wait("delete", timeout=240)


def test_a_deployment_is_scaled(api: Any, talker: dict[str, Any]) -> None:
    pod = {
        "metadata": {"labels": {"app": "web"}},
        "spec": talker["spec"] | {"restartPolicy": "Always"},
    }
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": pod}
    web = kr8s.objects.Deployment({"metadata": {"name": "web"}, "spec": spec}, api=api)
    web.create()
    web.wait("condition=Available", timeout=240)
    web.scale(2)
    web.wait("jsonpath='{.status.readyReplicas}'=2", timeout=240)
    assert len(web.pods()) == 2


def test_a_kind_that_is_not_built_in(api: Any, group: str) -> None:
    kind = kr8s.objects.new_class("Greeting", version=f"{group}/v1", asyncio=False)
    greeting = kind({"metadata": {"name": "hello"}, "spec": {"text": "hello"}}, api=api)
    greeting.create()
    greeting.patch({"spec": {"copies": 3}})
    assert (greeting.spec.copies, greeting.metadata.generation) == (3, 2)
    assert [found.name for found in kind.list(api=api)] == ["hello"]


def test_user_and_server_version(api: Any) -> None:
    assert api.version()["major"] == "1"
    assert api.whoami()
    names = {resource["name"] for resource in api.api_resources()}
    assert {"pods", "deployments", "customresourcedefinitions"} <= names
    with pytest.raises(ValueError, match="Kind nothings not found"):
        knowing_all_kinds(lambda: list(api.get("nothings")))
