"""The hub: starts a server for each user, as a pod, and leads requests to it.

It keeps nothing of its own: what it knows of a user's server is the pod's state.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from kubernetes import client, config

NAMESPACE = os.environ["POD_NAMESPACE"]
TEMPLATE = Path("/etc/hub/pod.json")
PORT = 8888


class Hub(BaseHTTPRequestHandler):
    """Handles one request: `/servers/ann` is ann's server, `/user/ann/` what it answers."""

    def do_GET(self) -> None:
        """Answer with the state of a server, or with the server's own answer."""
        if self.path == "/healthz":
            self.answer(200, {})
        elif user := self.find_user("/servers/"):
            self.answer(200, describe(find_pod(user)))
        elif user := self.find_user("/user/"):
            self.lead(user)
        else:
            self.answer(404, {"error": f"there is no {self.path}"})

    def do_PUT(self) -> None:
        """Start the server of a user; one that is there is left as it is."""
        user = self.find_user("/servers/")
        try:
            connect().create_namespaced_pod(NAMESPACE, make_pod(user))
        except client.ApiException as error:
            reason = json.loads(error.body or "{}")
            if reason.get("reason") != "AlreadyExists":
                self.answer(error.status or 500, {"error": reason.get("message", str(error))})
                return
        self.answer(202, describe(find_pod(user)))

    def do_DELETE(self) -> None:
        """Stop the server of a user; its pod may still be ending when the answer comes."""
        if find_pod(user := self.find_user("/servers/")):
            connect().delete_namespaced_pod(f"server-{user}", NAMESPACE)
        self.answer(202, {"state": "stopping"})

    def lead(self, user: str) -> None:
        """Answer as the server of the user does."""
        pod = find_pod(user)
        if describe(pod)["state"] != "ready":
            self.answer(503, describe(pod))
            return
        try:
            with urlopen(f"http://{pod['status']['podIP']}:{PORT}/", timeout=5) as answer:
                self.answer(200, json.load(answer))
        except URLError as error:
            self.answer(502, {"error": str(error.reason)})

    def find_user(self, prefix: str) -> str:
        """Return the user of the path; empty if it is another one."""
        return self.path.removeprefix(prefix).strip("/") if self.path.startswith(prefix) else ""

    def answer(self, status: int, body: dict[str, Any]) -> None:
        """Send a status and a JSON object."""
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def connect() -> Any:
    """Return the client; in its types each field may be None."""
    return client.CoreV1Api()


def make_pod(user: str) -> dict[str, Any]:
    """Return the pod of a user's server, by the template of the configuration."""
    pod: dict[str, Any] = json.loads(TEMPLATE.read_text())
    pod["metadata"] = {"name": f"server-{user}", "labels": {"app": "server", "user": user}}
    pod["spec"]["containers"][0]["env"] = [{"name": "SERVER_USER", "value": user}]
    return pod


def find_pod(user: str) -> dict[str, Any]:
    """Return the pod of a user's server; empty if there is none."""
    core = connect()
    pods = core.list_namespaced_pod(NAMESPACE, label_selector=f"app=server,user={user}")
    found: list[dict[str, Any]] = core.api_client.sanitize_for_serialization(pods.items)
    return found[0] if found else {}


def describe(pod: dict[str, Any]) -> dict[str, Any]:
    """Return the state of a server."""
    if not pod:
        return {"state": "absent"}
    status = pod.get("status", {})
    if any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in status.get("conditions", [])
    ):
        return {"state": "ready"}
    for container in status.get("containerStatuses", []):
        waiting = container.get("state", {}).get("waiting", {})
        if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            return {"state": "failed", "reason": waiting["reason"]}
    return {"state": "starting"}


def stop(signum: int, frame: object) -> None:
    """End at once when the pod is deleted."""
    sys.exit(0)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, stop)
    config.load_incluster_config()
    print("the hub is open", flush=True)
    ThreadingHTTPServer(("", 8000), Hub).serve_forever()
