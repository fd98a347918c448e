"""A controller of Pages: each gets a ConfigMap with its text and a title.

It follows Pages by a watch, writes with the rights of its service account, and sets `.status`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

from kubernetes import client, config, watch

if TYPE_CHECKING:
    from collections.abc import Iterator

GROUP, VERSION, PLURAL = "docs.example.com", "v1", "pages"


class Health(BaseHTTPRequestHandler):
    """Answers the probes."""

    def do_GET(self) -> None:
        """Answer that the controller runs."""
        self.send_response(200)
        self.end_headers()


def reconcile(page: dict[str, Any]) -> None:
    """Write the ConfigMap of a Page, and report in its status what came of it."""
    metadata, namespace = page["metadata"], page["metadata"]["namespace"]
    text = page["spec"]["text"]
    if not text.strip():
        set_status(page, "False", "Empty", f"page {metadata['name']} has no text")
        return
    owner = client.V1OwnerReference(
        api_version=page["apiVersion"],
        kind=page["kind"],
        name=metadata["name"],
        uid=metadata["uid"],
        controller=True,
    )
    body = client.V1ConfigMap(
        metadata=client.V1ObjectMeta(name=metadata["name"], owner_references=[owner]),
        data={"index.html": f"<h1>{text}</h1>\n"},
    )
    core = client.CoreV1Api()
    try:
        core.create_namespaced_config_map(namespace, body)
    except client.ApiException as error:
        if error.status != 409:
            raise
        core.patch_namespaced_config_map(metadata["name"], namespace, body)
    set_status(page, "True", "Written", f"configmap {metadata['name']} is written")


def set_status(page: dict[str, Any], ready: str, reason: str, message: str) -> None:
    """Set the condition Ready of a Page, for its present generation."""
    metadata = page["metadata"]
    before = {each["type"]: each for each in page.get("status", {}).get("conditions", [])}
    same = before.get("Ready", {}).get("status") == ready
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {
        "type": "Ready",
        "status": ready,
        "reason": reason,
        "message": message,
        "observedGeneration": metadata["generation"],
        "lastTransitionTime": before["Ready"]["lastTransitionTime"] if same else now,
    }
    client.CustomObjectsApi().patch_namespaced_custom_object_status(
        GROUP,
        VERSION,
        metadata["namespace"],
        PLURAL,
        metadata["name"],
        {"status": {"conditions": [condition], "observedGeneration": metadata["generation"]}},
    )


def follow_pages(namespace: str) -> Iterator[Any]:
    """Yield the events of Pages, at first one for each that there is; for ever."""
    pages = client.CustomObjectsApi()
    while True:
        yield from watch.Watch().stream(
            pages.list_namespaced_custom_object,
            GROUP,
            VERSION,
            namespace,
            PLURAL,
            timeout_seconds=300,
        )


def run(namespace: str) -> None:
    """Reconcile each Page whose generation has not been seen, for ever."""
    for event in follow_pages(namespace):
        page = event["object"]
        seen = page.get("status", {}).get("observedGeneration")
        if event["type"] in {"ADDED", "MODIFIED"} and seen != page["metadata"]["generation"]:
            try:
                reconcile(page)
            except client.ApiException as error:
                print(f"page {page['metadata']['name']}: {error.body}", flush=True)


def stop(signum: int, frame: object) -> None:
    """End at once when the pod is deleted."""
    sys.exit(0)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, stop)
    config.load_incluster_config()
    health = HTTPServer(("", 8080), Health)
    threading.Thread(target=health.serve_forever, daemon=True).start()
    run(os.environ["WATCH_NAMESPACE"])
