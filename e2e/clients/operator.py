"""A kopf operator: each Greeting gets a ConfigMap that repeats its text.

GREETINGS_GROUP=... kopf run --namespace NAME operator.py
"""

from __future__ import annotations

import os
from typing import Any

import kopf
from kubernetes import client, config

GROUP = os.environ["GREETINGS_GROUP"]


@kopf.on.startup()
def begin(settings: kopf.OperatorSettings, **_: Any) -> None:
    load: Any = config.load_kube_config
    load()
    settings.persistence.finalizer = f"{GROUP}/said"


@kopf.on.create(GROUP, "v1", "greetings")
def write(spec: kopf.Spec, name: str, namespace: str | None, **_: Any) -> dict[str, str]:
    body = {"metadata": {"name": name}, "data": {"text": _text(spec)}}
    kopf.adopt(body)
    _core().create_namespaced_config_map(namespace, body)
    return {"written": name}


@kopf.on.update(GROUP, "v1", "greetings", field="spec")
def rewrite(spec: kopf.Spec, name: str, namespace: str | None, **_: Any) -> None:
    patch = {"data": {"text": _text(spec)}}
    _core().patch_namespaced_config_map(name, namespace, patch)


@kopf.on.delete(GROUP, "v1", "greetings")
def say_goodbye(name: str, namespace: str | None, **_: Any) -> None:
    body = {"metadata": {"name": f"{name}-goodbye"}}
    _core().create_namespaced_config_map(namespace, body)


def _core() -> Any:
    return client.CoreV1Api()


def _text(spec: kopf.Spec) -> str:
    return " ".join([spec["text"]] * spec["copies"])
