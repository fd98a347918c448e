from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.simulator.http.conftest import Served

PODS = "/api/v1/namespaces/default/pods"


class Kubelet:
    """A kubelet that knows what it is told."""

    def __init__(self) -> None:
        self.lines = [(1767225600.0, b"one"), (1767225601.5, b"two"), (1767225602.0, b"three")]

    def pods(self) -> dict[str, Any]:
        return {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": []}

    def logs(
        self, namespace: str, pod: str, container: str, *, previous: bool = False
    ) -> list[tuple[float, bytes]]:
        return self.lines[:1] if previous else self.lines

    async def follow(
        self, namespace: str, pod: str, container: str
    ) -> AsyncIterator[tuple[float, bytes]]:
        for line in self.lines:
            yield line

    def exec(
        self, namespace: str, pod: str, container: str, argv: list[str]
    ) -> tuple[int, bytes, bytes]:
        return 0, b" ".join(one.encode() for one in argv), b""


@pytest.fixture
def kubelet(served: Served) -> Kubelet:
    kubelet = Kubelet()
    served.json("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})
    served.run(lambda: served.api.kubelets.update(n=kubelet))
    return kubelet


def make(served: Served, name: str, node: str = "", *containers: str, **status: Any) -> None:
    every = [{"name": one, "image": "x:1"} for one in containers or ("c",)]
    spec: dict[str, Any] = {"containers": every}
    if node:
        spec["nodeName"] = node
    served.json("POST", PODS, {"metadata": {"name": name}, "spec": spec})
    if status:
        served.json(
            "PATCH",
            f"{PODS}/{name}/status",
            {"status": status},
            Content_Type="application/merge-patch+json",
        )


RUNNING = {"containerStatuses": [{"name": "c", "state": {"running": {}}}]}


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("", b"one\ntwo\nthree\n"),
        ("?tailLines=1", b"three\n"),
        ("?tailLines=0", b""),
        ("?limitBytes=5", b"one\nt"),
        ("?sinceTime=2026-01-01T00:00:01Z", b"two\nthree\n"),
        ("?follow=true", b"one\ntwo\nthree\n"),
        ("?timestamps=true&tailLines=1", b"2026-01-01T00:00:02.000000000Z three\n"),
    ],
)
def test_logs(served: Served, kubelet: Kubelet, query: str, text: bytes) -> None:
    make(served, "p", "n", **RUNNING)
    answer = served.send("GET", f"{PODS}/p/log{query}")
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert answer.data == text


def test_a_pod_that_is_nowhere_has_no_log_yet(served: Served) -> None:
    make(served, "p")
    assert served.send("GET", f"{PODS}/p/log").status == 204


@pytest.mark.parametrize(
    ("query", "status", "message"),
    [
        ("?container=z", RUNNING, "container z is not valid for pod p"),
        (
            "?previous=true",
            RUNNING,
            'previous terminated container "c" in pod "p" not found',
        ),
        (
            "",
            {
                "containerStatuses": [
                    {"name": "c", "state": {"waiting": {"reason": "ContainerCreating"}}}
                ]
            },
            'container "c" in pod "p" is waiting to start: ContainerCreating',
        ),
        (
            "",
            {
                "containerStatuses": [
                    {"name": "c", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
                ]
            },
            'container "c" in pod "p" is waiting to start: trying and failing to pull image',
        ),
    ],
)
def test_logs_that_are_not_there(
    served: Served, kubelet: Kubelet, query: str, status: dict[str, Any], message: str
) -> None:
    make(served, "p", "n", **status)
    answer = served.send("GET", f"{PODS}/p/log{query}")
    assert (answer.status, answer.json()["message"]) == (400, message)


def test_one_of_several_containers_must_be_named(served: Served, kubelet: Kubelet) -> None:
    make(served, "p", "n", "a", "b")
    answer = served.json("GET", f"{PODS}/p/log")
    assert answer["message"] == (
        "a container name must be specified for pod p, choose one of: [a b]"
    )


def test_the_kubelets_pods_are_read_through_the_server(served: Served, kubelet: Kubelet) -> None:
    path = "/api/v1/nodes/n/proxy"
    assert served.json("GET", f"{path}/pods")["kind"] == "PodList"
    assert served.send("GET", f"{path}/healthz").data == b"ok"
    assert served.send("GET", f"{path}/nope").status == 404
    assert served.send("GET", "/api/v1/nodes/none/proxy/pods").status == 404


def test_a_kubelet_that_is_gone_is_told_so(served: Served) -> None:
    served.json("POST", "/api/v1/nodes", {"metadata": {"name": "gone"}})
    answer = served.send("GET", "/api/v1/nodes/gone/proxy/pods")
    assert (answer.status, answer.json()["reason"]) == (503, "ServiceUnavailable")


@pytest.mark.parametrize("protocol", ["v5.channel.k8s.io", "v4.channel.k8s.io"])
def test_commands_run_over_a_websocket(served: Served, kubelet: Kubelet, protocol: str) -> None:
    websocket = pytest.importorskip("websocket")
    make(served, "p", "n", **RUNNING)
    socket = websocket.create_connection(
        f"ws://127.0.0.1:{served.port}{PODS}/p/exec?command=echo&command=hi&stdout=true",
        header=["Authorization: Bearer admin-token"],
        subprotocols=[protocol],
        timeout=5,
    )
    try:
        assert socket.getsubprotocol() == protocol
        assert socket.recv() == b"\x01echo hi"
        assert socket.recv() == b'\x03{"metadata":{},"status":"Success"}'
    finally:
        socket.close()


def test_there_are_no_ports_to_forward(served: Served, kubelet: Kubelet) -> None:
    make(served, "p", "n", **RUNNING)
    answer = served.send("GET", f"{PODS}/p/portforward?ports=80")
    assert (answer.status, answer.json()["message"]) == (
        400,
        "containers of the embedded cluster listen on no ports: there is nothing to connect to",
    )


def test_a_command_needs_a_place_and_a_websocket(served: Served, kubelet: Kubelet) -> None:
    make(served, "p")
    answer = served.send("GET", f"{PODS}/p/exec?command=a")
    assert (answer.status, answer.json()["message"]) == (
        400,
        "pod p does not have a host assigned",
    )
    make(served, "q", "n", **RUNNING)
    answer = served.send("POST", f"{PODS}/q/exec?command=a")
    assert (answer.status, answer.json()["message"]) == (
        400,
        "Upgrade request required: this server streams over WebSocket alone",
    )
