"""A kopf operator of Sites, and six mistakes that can be planted in it; the program of a pod.

    kopf run kopf_operator.py

A Site has a port, which no other one has, a page, a line in the directory of Sites, which others
write as well, and a record, which outlives it unless the operator removes it. All are config maps.
The operator reports the condition Ready, and others report conditions of their own.
The variable MISTAKE is one of these; without it the operator makes none:

- `ignored_conflict`: a conflict is ignored, as another change causes an event of its own.
- `ignored_refusal`: the page is written by a handler that is not tried again.
- `stale_cache`: a free port is looked up in an index, which may lack the last one.
- `missed_delete`: the record is removed on the event of the deletion, not by a finalizer.
- `status_overwrite`: all conditions are written as they were when the handler began.
- `event_order`: the config map with a Site's text is taken to be in an index before the Site is.
"""

from __future__ import annotations

import os
from typing import Any

import kopf
from kubernetes import config
from kubernetes.client import CoreV1Api, CustomObjectsApi  # loads them before time matters
from kubernetes.client.exceptions import ApiException

GROUP = "explore.example.com"
SITE_LABEL = f"{GROUP}/site"
DIRECTORY = "directory"
FIRST_PORT = 8000
RETRY = 0.05
"""Seconds before what failed is tried again."""

MISTAKE = os.environ.get("MISTAKE", "")
SITES = (GROUP, "v1", "sites")


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    """Use the rights of the pod's service account, which has none outside of its namespace."""
    load: Any = config.load_incluster_config
    load()
    settings.scanning.disabled = True
    settings.posting.enabled = False
    settings.networking.error_backoffs = [RETRY, 1, 1]
    settings.persistence.finalizer = f"{GROUP}/record"


@kopf.index("", "v1", "configmaps")
def maps(name: str, body: kopf.Body, **_: Any) -> dict[str, dict[str, str]]:
    """Index the data of config maps by their names."""
    return {name: dict(body.get("data") or {})}


@kopf.on.create(*SITES, backoff=RETRY, id="serve")
@kopf.on.update(*SITES, backoff=RETRY, id="serve", field="spec")
def serve(
    body: kopf.Body,
    spec: kopf.Spec,
    name: str,
    namespace: str | None,
    maps: Any = None,  # the index of this name
    **_: Any,
) -> None:
    """Give a Site its record, port, line and page, and report it as ready."""
    assert namespace is not None, "Sites have one"
    text = "" if MISTAKE == "ignored_refusal" else find_text(namespace, spec, maps)
    write_map(namespace, f"{name}-record", {"host": f"{name}.example.com"})
    if MISTAKE == "stale_cache":
        found = {name: data for name, (data,) in maps.items()}
    else:
        found = read_maps(namespace)
    ports = {site: int(data["port"]) for site, data in found.items() if "port" in data}
    port = ports.get(f"{name}-port") or next(
        port for port in range(FIRST_PORT, 65536) if port not in ports.values()
    )
    write_map(namespace, f"{name}-port", {"port": str(port)})
    add_line(namespace, name)
    if MISTAKE != "ignored_refusal":
        write_page(namespace, name, text)
    report_ready(namespace, name, body)


@kopf.on.event(*SITES)
def see(event: kopf.RawEvent, name: str, namespace: str | None, spec: kopf.Spec, **_: Any) -> None:
    """Do here what handlers of changes should do, which are tried again."""
    if MISTAKE == "missed_delete" and event["type"] == "DELETED":
        delete_map(str(namespace), f"{name}-record")
    if MISTAKE == "ignored_refusal" and event["type"] in ("ADDED", None):
        write_page(str(namespace), name, spec.get("text", ""))


def remove(name: str, namespace: str | None, **_: Any) -> None:
    """Remove the record of a Site that is being deleted."""
    delete_map(str(namespace), f"{name}-record")


if MISTAKE not in ("missed_delete", "stale_cache", "event_order"):
    # Its finalizer holds the Site until the handler has succeeded.
    kopf.on.delete(*SITES, backoff=RETRY)(remove)


def add_line(namespace: str, name: str) -> None:
    """Add the line of a Site to the directory."""
    core: Any = CoreV1Api()
    directory = core.read_namespaced_config_map(DIRECTORY, namespace)
    if name in (directory.data or {}):
        return
    directory.data = {**(directory.data or {}), name: f"{name}.example.com"}
    try:
        core.replace_namespaced_config_map(DIRECTORY, namespace, directory)
    except ApiException as error:
        if MISTAKE != "ignored_conflict" or error.status != 409:
            raise


def find_text(namespace: str, spec: kopf.Spec, maps: kopf.Index[str, Any]) -> str:
    """Return the text of a Site, which a config map may have."""
    source = spec.get("textFrom")
    if source is None:
        return str(spec["text"])
    if MISTAKE == "event_order":
        found = {name: data for name, (data,) in maps.items()}
        return str(found.get(source, {}).get("text", ""))
    return str(read_maps(namespace)[source]["text"])


def report_ready(namespace: str, name: str, body: kopf.Body) -> None:
    """Report a Site as ready, beside the conditions of others."""
    api: Any = CustomObjectsApi()
    place = (GROUP, "v1", namespace, "sites", name)
    found: Any = body if MISTAKE == "status_overwrite" else api.get_namespaced_custom_object(*place)
    ready = {
        "type": "Ready",
        "status": "True",
        "observedGeneration": body["metadata"]["generation"],
    }
    others = [
        condition
        for condition in (found.get("status") or {}).get("conditions", [])
        if condition["type"] != "Ready"
    ]
    change: dict[str, Any] = {"status": {"conditions": [*map(dict, others), ready]}}
    if MISTAKE != "status_overwrite":
        change["metadata"] = {"resourceVersion": found["metadata"]["resourceVersion"]}
    api.patch_namespaced_custom_object_status(
        *place, change, _content_type="application/merge-patch+json"
    )


def write_page(namespace: str, name: str, text: str) -> None:
    """Write the page of a Site."""
    write_map(namespace, f"{name}-page", {"index.html": f"<h1>{text}</h1>\n"})


def read_maps(namespace: str) -> dict[str, dict[str, str]]:
    """Return the data of all config maps, from the server."""
    core: Any = CoreV1Api()
    found = core.list_namespaced_config_map(namespace).items
    return {one.metadata.name: one.data or {} for one in found}


def write_map(namespace: str, name: str, data: dict[str, str]) -> None:
    """Create a config map, or write into the one that exists."""
    core: Any = CoreV1Api()
    core.patch_namespaced_config_map(
        name,
        namespace,
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data},
        field_manager="sites",
        force=True,
        _content_type="application/apply-patch+yaml",
    )


def delete_map(namespace: str, name: str) -> None:
    """Delete a config map that may be gone."""
    core: Any = CoreV1Api()
    try:
        core.delete_namespaced_config_map(name, namespace)
    except ApiException as error:
        if error.status != 404:
            raise
