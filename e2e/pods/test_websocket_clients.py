"""Clients that read logs and run commands over WebSocket."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any

import pytest
import websocket
from kubernetes.client import CoreV1Api
from kubernetes.stream import stream

from e2e.objects import container, pod

if TYPE_CHECKING:
    from pytest_kwait import Kwait


EXEC = "connect_get_namespaced_pod_exec"


def receive(kwait: Kwait, path: str, *protocols: str) -> list[Any]:
    """Return the protocol, the messages, and the code with which the server closes."""
    settings: Any = kwait.client.configuration
    options: dict[str, Any] = {"ca_certs": settings.ssl_ca_cert, "check_hostname": False}
    if settings.cert_file:
        options.update(certfile=settings.cert_file, keyfile=settings.key_file)
    if not settings.ssl_ca_cert:
        options = {"cert_reqs": ssl.CERT_NONE}
    headers: dict[str, str] = {}
    kwait.client.update_params_for_auth(headers, [], ["BearerToken"], path, "GET", None)
    socket = websocket.create_connection(
        settings.host.replace("https://", "wss://") + path,
        header=[f"{name}: {value}" for name, value in headers.items()],
        sslopt=options,
        subprotocols=list(protocols) or None,
        timeout=60,
    )
    found: list[Any] = [socket.getsubprotocol()]
    try:
        while True:
            code, data = socket.recv_data()
            if code == websocket.ABNF.OPCODE_CLOSE:
                return [*found, int.from_bytes(data[:2], "big")]
            found.append(data)
    finally:
        socket.shutdown()  # type: ignore[no-untyped-call]  # the client has no types here


def test_logs_over_websocket(kwait: Kwait) -> None:
    """An empty message first, then the log, as bytes or in base64."""
    kwait.create(pod("p", container(script="echo one")))
    kwait.wait_for_pod_success("p")
    path = f"/api/v1/namespaces/{kwait.namespace}/pods/p/log"

    assert receive(kwait, path) == [None, b"", b"one\n", 1000]
    protocol = "base64.binary.k8s.io"
    assert receive(kwait, f"{path}?follow=1", protocol) == [protocol, b"", b"b25lCg==", 1000]
    with pytest.raises(websocket.WebSocketBadStatusException, match="403 Forbidden"):
        receive(kwait, path, "nonsense")


def read_exit_code(kwait: Kwait, *command: str) -> int:
    """Return the exit code as the official client reads it from the command's status."""
    session = stream(
        getattr(CoreV1Api(kwait.client), EXEC), "p", kwait.namespace, command=list(command),
        stdout=True, _preload_content=False,
    )  # fmt: skip
    try:
        session.run_forever(timeout=30)
        return int(session.returncode)
    finally:
        session.sock.shutdown()


def test_exit_codes_of_the_official_client(kwait: Kwait) -> None:
    """For a command that cannot be started it takes the error's text for the code."""
    kwait.create(pod("p"))
    kwait.wait_for_pod_running("p")
    assert read_exit_code(kwait, "true") == 0
    assert read_exit_code(kwait, "sh", "-c", "exit 3") == 3
    with pytest.raises(ValueError, match="'Internal error occurred: error executing command in"):
        read_exit_code(kwait, "nonsuch")
