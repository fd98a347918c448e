"""Pods and config maps for the suites here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_kwait import Kwait

Obj = dict[str, Any]
NODE = "kwait-node-1"
FOR_EVER = "sleep 3600"


def pod(script: str = FOR_EVER, image: str = "busybox:1", **spec: Any) -> Obj:
    container = {"name": "c", "image": image, "command": ["sh", "-c", script]}
    whole = {"containers": [container], "terminationGracePeriodSeconds": 0, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": whole}


def note(text: str, name: str = "note") -> Obj:
    metadata = {"name": name}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"is": text}}


def running(kwait: Kwait, **spec: Any) -> Obj:
    kwait.create(pod(**spec))
    found: Obj = kwait.wait_for("pod/p", "jsonpath={.status.phase}=Running")
    return found
