"""An operator: each Greeting gets a config map with its text.

kopf run operator.py
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any

import kopf
from kubernetes import client, config

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

GROUP = os.environ["GREETINGS_GROUP"]
SERVICE = os.environ["WEBHOOK_SERVICE"]
NAMESPACE = os.environ["POD_NAMESPACE"]


async def serve_webhook(handler: Any) -> AsyncIterator[kopf.WebhookClientConfig]:
    """Serve the admission webhook with the mounted certificate, behind a service."""
    server = kopf.WebhookServer(
        port=8443, certfile="/tls/tls.crt", pkeyfile="/tls/tls.key", cafile="/tls/ca.crt"
    )
    async for client_config in server(handler):
        del client_config["url"]
        client_config["service"] = kopf.WebhookClientConfigService(
            namespace=NAMESPACE, name=SERVICE, port=443, path=""
        )
        yield client_config


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    """Use the rights of the pod's service account."""
    load: Any = config.load_incluster_config
    load()
    settings.persistence.finalizer = f"{GROUP}/farewell"
    settings.admission.server = serve_webhook
    settings.admission.managed = GROUP
    settings.networking.error_backoffs = [0.1, 0.5, 1]


@kopf.on.validate(GROUP, "v1", "greetings", id="copies", operations=["CREATE", "UPDATE"])
def check_copies(spec: kopf.Spec, warnings: list[str], **_: Any) -> None:
    """Refuse more than 100 copies of a greeting, and warn of more than 10."""
    if spec.get("copies", 1) > 100:
        raise kopf.AdmissionError(f"{spec['copies']} copies are too many: at most 100", code=422)
    if spec.get("copies", 1) > 10:
        warnings.append("more than 10 copies are hard to read")


@kopf.on.create(GROUP, "v1", "greetings")
@kopf.on.update(GROUP, "v1", "greetings", field="spec")
def write(spec: kopf.Spec, name: str, namespace: str | None, patch: kopf.Patch, **_: Any) -> None:
    """Write the config map, and its name into the status."""
    text = " ".join([spec["text"]] * spec.get("copies", 1))
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {"text": text, "operator": socket.gethostname()},
    }
    kopf.adopt(body)
    core: Any = client.CoreV1Api()
    core.patch_namespaced_config_map(
        name,
        namespace,
        body,
        field_manager="greetings",
        _content_type="application/apply-patch+yaml",
    )
    patch.status["text"] = text


@kopf.on.delete(GROUP, "v1", "greetings")
def bid_farewell(name: str, namespace: str | None, **_: Any) -> None:
    """Leave a farewell, which nothing owns."""
    core: Any = client.CoreV1Api()
    core.create_namespaced_config_map(namespace, {"metadata": {"name": f"farewell-{name}"}})
