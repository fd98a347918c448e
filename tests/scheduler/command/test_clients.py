from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import Deadline
from pytest_kwait.scheduler.command import CommandError
from pytest_kwait.scheduler.command.program import (
    make_in_cluster_client,
    make_kubeconfig_client,
    make_scheduler_client,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _outside_of_any_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUBERNETES_MASTER", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    file = tmp_path / "kubeconfig"
    content: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "b",
        "clusters": [
            {"name": name, "cluster": {"server": f"https://{name}.example:6443"}} for name in "ab"
        ],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "u"}} for name in "ab"],
    }
    file.write_text(json.dumps(content))
    return str(file)


def test_kubeconfig_current_context_is_used(kubeconfig: str) -> None:
    configuration: Any = make_scheduler_client(kubeconfig, "").configuration
    assert configuration.host == "https://b.example:6443"
    assert configuration.api_key["BearerToken"] == "Bearer secret"
    assert configuration.proxy == "http://proxy.example:3128"


def test_master_overrides_kubeconfig(kubeconfig: str) -> None:
    configuration: Any = make_scheduler_client(kubeconfig, "https://127.0.0.1:7/").configuration
    assert configuration.host == "https://127.0.0.1:7"
    assert configuration.api_key["BearerToken"] == "Bearer secret"
    assert configuration.proxy is None, "no proxy leads back to this machine"


class _VersionHandler(BaseHTTPRequestHandler):
    """Answers each request with a version, and records its path and token."""

    requests: ClassVar[list[tuple[str, str | None]]] = []

    def do_GET(self) -> None:
        self.requests.append((self.path, self.headers["Authorization"]))
        body = b'{"major": "1", "minor": "36", "gitVersion": "v1.36.2"}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None: ...


def test_requests_go_to_master_with_the_token_of_the_kubeconfig(kubeconfig: str) -> None:
    _VersionHandler.requests.clear()
    with HTTPServer(("127.0.0.1", 0), _VersionHandler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        address = f"http://127.0.0.1:{server.server_port}"
        client = make_scheduler_client(kubeconfig, address)
        try:
            for _ in range(2):
                ApiSession.of(client).server_version(deadline=Deadline.after(10.0))
        finally:
            server.shutdown()
            thread.join()
            client.close()  # type: ignore[no-untyped-call] # the client has no types here
    assert _VersionHandler.requests == [("/version", "Bearer secret")] * 2
    assert client.configuration.host == address


def test_master_alone_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    assert make_scheduler_client("", "10.0.0.1:8080").configuration.host == "http://10.0.0.1:8080"
    monkeypatch.setenv("KUBERNETES_MASTER", "https://other.example")
    assert make_scheduler_client("", "").configuration.host == "https://other.example"
    assert make_scheduler_client("", "one.example").configuration.host == "http://one.example"


@pytest.mark.parametrize("master", ["unix:///x", "https://", "//"])
def test_invalid_master_address_is_refused(master: str) -> None:
    with pytest.raises(CommandError) as caught:
        make_scheduler_client("", master)
    assert str(caught.value) == f"host must be a URL or a host:port pair: {master!r}"


def test_missing_server_address_is_refused() -> None:
    assert make_in_cluster_client() is None
    with pytest.raises(CommandError) as caught:
        make_scheduler_client("", "")
    assert str(caught.value) == (
        "invalid configuration: no configuration has been provided,"
        " try setting KUBERNETES_MASTER environment variable"
    )


@pytest.mark.usefixtures("kubeconfig")
def test_kubeconfig_without_its_context_is_refused(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text((tmp_path / "kubeconfig").read_text().replace('"b"', '"c"', 1))
    with pytest.raises(CommandError) as caught:
        make_kubeconfig_client(str(broken))
    assert str(caught.value) == (
        f"error loading config file {broken}: Invalid kube-config file."
        f" Expected object with name c in {broken}/contexts list"
    )


def test_a_file_of_other_contents_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "hostname"
    text.write_text("node-1\n")
    with pytest.raises(CommandError) as caught:
        make_kubeconfig_client(str(text))
    assert str(caught.value) == (
        f"error loading config file {text}: not a kubeconfig: it must be a YAML mapping of kind "
        "Config, with clusters, users and contexts"
    )
