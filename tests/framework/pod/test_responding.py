"""Waits that ask pods and kubelets through the API server's proxy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import pytest_kwait as kw
from pytest_kwait.client.resource import NODES, PODS
from pytest_kwait.client.responses import Response
from pytest_kwait.errors import ApiError, WaitFailed, WaitTimeout
from tests.objects import condition, pod

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from tests.engine.fake_session import FakeSession

MODES = pytest.mark.parametrize("mode", ["watch", "poll"])
UP = {"metadata": {"name": "node-1"}, "status": {"conditions": [condition("Ready")]}}


class Proxy:
    """Answers requests to a proxy by their path."""

    def __init__(self, session: FakeSession, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: list[str] = []
        monkeypatch.setattr(session, "request", self.request)

    def request(self, method: str, path: str, **_: Any) -> Response:
        self.asked.append(path)
        answer = self.answers.get(path, ApiError("no route", status=503))
        if isinstance(answer, Exception):
            raise answer
        return Response(200, {}, answer)


@pytest.fixture
def proxy(session: FakeSession, monkeypatch: pytest.MonkeyPatch) -> Proxy:
    return Proxy(session, monkeypatch)


POD_A = "/api/v1/namespaces/ci-1/pods/a/proxy/"


@MODES
def test_pods_that_respond(
    client: ApiClient, session: FakeSession, proxy: Proxy, mode: Any
) -> None:
    session.put(PODS, pod("a", "Running"))
    session.put(PODS, pod("stranger", "Running"))
    session.at(3, proxy.answers.update, {POD_A: b"a\n"})

    (a,) = kw.wait_for_pods_responding(client, "ci-1", pods=["a"], want_name=True, mode=mode)

    assert a["metadata"]["name"] == "a"
    assert proxy.asked == [POD_A] * 3
    assert session.clock.monotonic() == 4.0
    assert kw.wait_for_pods_responding(client, "ci-1", pods=[]) == []


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"b", "a answered 'b' instead of its name"),
        (ApiError("no route", status=503), "a answered 503: no route"),
        (ApiError("refused", reason="ConnectionRefused"), "a answered ConnectionRefused: refused"),
    ],
)
def test_pods_that_do_not_respond(
    client: ApiClient, session: FakeSession, proxy: Proxy, answer: Any, reason: str
) -> None:
    session.put(PODS, pod("a", "Running"))
    proxy.answers["/api/v1/namespaces/ci-1/pods/a:8080/proxy/name"] = answer

    with pytest.raises(WaitTimeout) as caught:
        kw.wait_for_pods_responding(
            client, "ci-1", pods=["a"], want_name=True, port=8080, path="/name", timeout=3
        )

    assert caught.value.args == (
        f"pod a in ci-1 did not respond within 3s: 0 of 1 pods respond: {reason}",
    )


def test_pods_that_cannot_respond(client: ApiClient, session: FakeSession, proxy: Proxy) -> None:
    session.put(PODS, pod("a", "Succeeded"))
    other = {"metadata": {"name": "a", "uid": "other"}}

    with pytest.raises(WaitFailed, match="pod a: the pod has succeeded"):
        kw.wait_for_pods_responding(client, "ci-1", pods=["a"])
    with pytest.raises(WaitFailed, match="pod a was deleted and created anew under another UID"):
        kw.wait_for_pods_responding(client, "ci-1", pods=[other])
    with pytest.raises(WaitTimeout, match="no pod matches yet"):
        kw.wait_for_pods_responding(client, "ci-1", selector="app=x", timeout=1)


@MODES
def test_pods_that_are_created_anew_may_be_followed_by_name(
    client: ApiClient, session: FakeSession, proxy: Proxy, mode: Any
) -> None:
    anew = pod("a", "Running")
    anew["metadata"]["uid"] = "new"
    session.put(PODS, pod("a", "Running"))
    session.at(2, session.drop, PODS, "a")
    session.at(4, session.put, PODS, anew)
    session.at(4, proxy.answers.update, {POD_A: b"a"})
    other = {"metadata": {"name": "a", "uid": "old"}}

    (a,) = kw.wait_for_pods_responding(client, "ci-1", pods=[other], follow_name=True, mode=mode)

    assert a["metadata"]["uid"] == "new"


def test_a_proxy_that_is_forbidden(client: ApiClient, session: FakeSession, proxy: Proxy) -> None:
    session.put(PODS, pod("a", "Running"))
    proxy.answers[POD_A] = ApiError("no", status=403, reason="Forbidden")

    with pytest.raises(ApiError, match="no"):
        kw.wait_for_pods_responding(client, "ci-1", pods=["a"])


RUNNING = "/api/v1/nodes/node-1/proxy/runningpods/"


def kubelet(*names: str, namespace: str = "ci-1") -> bytes:
    items = [{"metadata": {"name": name, "namespace": namespace}} for name in names]
    return msgspec.json.encode({"kind": "PodList", "items": items or None})


@MODES
def test_pods_that_kubelets_report(
    client: ApiClient, session: FakeSession, proxy: Proxy, mode: Any
) -> None:
    session.put(NODES, UP)
    proxy.answers[RUNNING] = kubelet("web-a", "other")
    session.at(3, proxy.answers.update, {RUNNING: kubelet("web-b", "web-a", "other")})

    pods = kw.wait_for_pods_running_on_nodes(client, "ci-1", ["node-1"], 2, "web-", mode=mode)

    assert [each["metadata"]["name"] for each in pods] == ["web-a", "web-b"]
    assert session.clock.monotonic() == 6.0, "one report may show a number in passing"
    proxy.answers[RUNNING] = kubelet("web-a", namespace="another")
    assert kw.wait_for_pods_running_on_nodes(client, "ci-1", ["node-1"], 0) == []


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (kubelet("a"), "1 of 2 run"),
        (ApiError("down", status=503), "the kubelet of node-1 could not be asked: down"),
        (b"<html>", "the kubelet of node-1 did not answer with a list of pods"),
    ],
)
def test_kubelets_that_run_others(
    client: ApiClient, session: FakeSession, proxy: Proxy, answer: Any, reason: str
) -> None:
    session.put(NODES, UP)
    proxy.answers[RUNNING] = answer

    with pytest.raises(WaitTimeout) as caught:
        kw.wait_for_pods_running_on_nodes(client, "ci-1", ["node-1"], 2, timeout=3)

    assert caught.value.args == (
        f"kubelet of node-1 did not run exactly 2 pods of ci-1 within 3s: {reason}",
    )


def test_nodes_with_unreachable_kubelets(
    client: ApiClient, session: FakeSession, proxy: Proxy
) -> None:
    with pytest.raises(WaitTimeout, match="there is no node nowhere"):
        kw.wait_for_pods_running_on_nodes(client, "ci-1", ["nowhere"], 2, timeout=3)

    session.put(NODES, UP)
    session.at(5, session.drop, NODES, "node-1")
    with pytest.raises(WaitFailed, match="node node-1 was deleted"):
        kw.wait_for_pods_running_on_nodes(client, "ci-1", ["node-1"], 2)
    session.put(NODES, UP)
    proxy.answers[RUNNING] = ApiError("no", status=403, reason="Forbidden")
    with pytest.raises(ApiError, match="no"):
        kw.wait_for_pods_running_on_nodes(client, "ci-1", ["node-1"], 2)
