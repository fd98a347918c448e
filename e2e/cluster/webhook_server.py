"""A webhook server of a test: HTTPS on loopback, for admission and conversion."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import trustme

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Answer = dict[str, Any]


def allow(_: dict[str, Any]) -> Answer:
    """Let everything through."""
    return {"allowed": True}


def deny(_: dict[str, Any]) -> Answer:
    """Refuse everything."""
    return {"allowed": False, "status": {"message": "not on a Sunday"}}


def annotate(_: dict[str, Any]) -> Answer:
    """Leave a note on everything."""
    patch = [{"op": "add", "path": "/metadata/annotations", "value": {"example.com/seen": "yes"}}]
    encoded = base64.b64encode(json.dumps(patch).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


class Server(ThreadingHTTPServer):
    """Answers reviews.

    Args:
        answer: what a request is answered with.
        port: where; 0 for any free one.
    """

    daemon_threads = True

    def __init__(self, answer: Callable[[dict[str, Any]], Answer], port: int = 0) -> None:
        self.answer = answer
        super().__init__(("127.0.0.1", port), _Handler)
        authority = trustme.CA()
        self.ca = authority.cert_pem.bytes()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        self.socket = context.wrap_socket(self.socket, server_side=True)


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = self.server
        assert isinstance(server, Server)
        uid = review["request"]["uid"]
        response = {"uid": uid, **server.answer(review["request"])}
        answer = {"apiVersion": review["apiVersion"], "kind": review["kind"]}
        body = json.dumps({**answer, "response": response}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet."""


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    """Serve until the block ends."""
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def webhook(
    server: Server,
    namespace: str,
    *,
    mutating: bool = False,
    failure_policy: str = "Ignore",
    plural: str = "configmaps",
    seconds: int = 2,
) -> dict[str, Any]:
    """Return the configuration of a webhook that one namespace alone meets."""
    kind = "MutatingWebhookConfiguration" if mutating else "ValidatingWebhookConfiguration"
    rule = {
        "apiGroups": ["", "apps"],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": [plural],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": namespace},
        "webhooks": [
            {
                "name": "sunday.example.com",
                "admissionReviewVersions": ["v1"],
                "clientConfig": {
                    "url": f"https://127.0.0.1:{server.server_port}/review",
                    "caBundle": base64.b64encode(server.ca).decode(),
                },
                "failurePolicy": failure_policy,
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "rules": [rule],
                "sideEffects": "None",
                "timeoutSeconds": seconds,
            }
        ],
    }
