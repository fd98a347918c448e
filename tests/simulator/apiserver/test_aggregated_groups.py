"""Groups of aggregated servers, over HTTPS."""

from __future__ import annotations

import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.clock import SYSTEM_CLOCK
from pytest_kwait.simulator.aggregator.api_services import AvailabilityController
from pytest_kwait.simulator.aggregator.handler_proxy import start_availability_check
from pytest_kwait.simulator.authentication.pki import CertificateAuthority

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulator.apiserver.conftest import Served

_SERVICE = "/apis/apiregistration.k8s.io/v1/apiservices/v1.a.example"


class Backend(BaseHTTPRequestHandler):
    """Answers with the user and path of each request."""

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        said = {
            "asked": f"{self.command} {self.path}",
            "user": self.headers.get("X-Remote-User"),
            "groups": self.headers.get_all("X-Remote-Group"),
            "extra": self.headers.get("X-Remote-Extra-Mine"),
            "proxy": self._read_client(),
            "token": self.headers.get("Authorization"),
            "type": self.headers.get("Content-Type"),
            "body": self.rfile.read(length).decode(),
        }
        body = json.dumps(said).encode()
        is_known = said["user"] in ("admin", "system:kube-aggregator")
        self.send_response((418 if "teapot" in self.path else 200) if is_known else 401)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Own", "kept")
        self.end_headers()
        self.wfile.write(body)

    def _read_client(self) -> str:
        assert isinstance(self.connection, ssl.SSLSocket)
        certificate = self.connection.getpeercert()
        assert certificate is not None
        return str(certificate["subject"][-1][0][1])

    do_GET = do_POST = _answer  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@pytest.fixture
def backend(served: Served) -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Backend)
    tls = CertificateAuthority("127.0.0.1").tls
    tls.load_verify_locations(cadata=served.api.front_proxy.authority)
    tls.verify_mode = ssl.CERT_REQUIRED
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


def _register(served: Served, port: int) -> None:
    served.run(lambda: AvailabilityController(served.api, start_availability_check))
    spec = {"type": "ExternalName", "externalName": "127.0.0.1"}
    name = {"metadata": {"name": "far"}}
    served.json("POST", "/api/v1/namespaces/default/services", {**name, "spec": spec})
    wanted = {"group": "a.example", "version": "v1", "groupPriorityMinimum": 10}
    wanted |= {"versionPriority": 10, "insecureSkipTLSVerify": True}
    wanted |= {"service": {"name": "far", "namespace": "default", "port": port}}
    body = {"metadata": {"name": "v1.a.example"}, "spec": wanted}
    assert served.send("POST", _SERVICE.rpartition("/")[0], body).status == 201


def _await(served: Served, reason: str) -> str:
    deadline = SYSTEM_CLOCK.monotonic() + 30
    while SYSTEM_CLOCK.monotonic() < deadline:
        status = served.json("GET", _SERVICE)["status"]
        for one in status.get("conditions") or ():
            if one["reason"] == reason:
                return str(one["message"])
        SYSTEM_CLOCK.sleep(0.02)
    raise AssertionError(status)


def test_aggregated_requests_are_proxied_with_user_headers(served: Served, backend: int) -> None:
    _register(served, backend)
    assert _await(served, "Passed") == "all checks passed"
    false = {"X_Remote_User": "root", "X_Remote_Extra_Mine": "1"}
    answer = served.send("POST", "/apis/a.example/v1/things?x=1", b"hello", **false)
    assert (answer.status, answer.headers["X-Own"]) == (200, "kept")
    assert answer.json() == {
        "asked": "POST /apis/a.example/v1/things?x=1",
        "user": "admin",
        "groups": ["system:masters", "system:authenticated"],
        "extra": None,
        "proxy": "front-proxy-client",
        "token": None,
        "type": None,
        "body": "hello",
    }
    assert served.send("GET", "/apis/a.example/v1/teapots").status == 418
    group = served.json("GET", "/apis/a.example")
    assert group["preferredVersion"]["groupVersion"] == "a.example/v1"


def test_unreachable_aggregated_server_is_unavailable(served: Served) -> None:
    _register(served, 1)
    told = _await(served, "FailedDiscoveryCheck")
    url = "https://127.0.0.1:1/apis/a.example/v1"
    why = f'Get "{url}": dial tcp 127.0.0.1:1: connect: connection refused'
    assert told == f"failing or missing response from {url}: {why}"
    answer = served.send("GET", "/apis/a.example/v1/things")
    assert (answer.status, answer.data) == (503, b"service unavailable\n")
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    served.send("DELETE", _SERVICE)
    assert served.send("GET", "/apis/a.example/v1").status == 404
