"""A kind of two versions, converted by a function in place of a webhook."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.admission.webhooks import webhook_client
from pytest_kwait.simulator.admission.webhooks.webhook_client import WebhookReply
from pytest_kwait.simulator.request_info import Caller
from tests.simulator.cluster import new_cluster

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from pytest_kwait.simulator.admission.webhooks.webhook_client import WebhookCall
    from pytest_kwait.simulator.cluster import SimulatedCluster
    from pytest_kwait.simulator.scheme import Kind

Obj = dict[str, Any]

CRDS = "customresourcedefinitions.apiextensions.k8s.io"
SERVERS = "servers.example.com"
TEXT: Obj = {"type": "string"}


def schema(**fields: Obj) -> Obj:
    spec = {"type": "object", "properties": fields}
    return {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}


def servers() -> Obj:
    """Version 1 has an address, version 2 a host and a port; version 2 is stored."""
    webhook = {
        "conversionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://127.0.0.1:1/convert"},
    }
    fields: Obj = {"host": TEXT, "port": {**TEXT, "maxLength": 3}, "zone": {**TEXT, "default": "z"}}
    return {
        "metadata": {"name": SERVERS},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "servers", "kind": "Server"},
            "conversion": {"strategy": "Webhook", "webhook": webhook},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": False,
                    "schema": schema(address={**TEXT, "maxLength": 9}),
                },
                {"name": "v2", "served": True, "storage": True, "schema": schema(**fields)},
            ],
        },
    }


def server(version: str, name: str = "a", **spec: str) -> Obj:
    return {
        "apiVersion": f"example.com/{version}",
        "kind": "Server",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def converted(obj: Obj, version: str) -> Obj:
    """Convert an object to the other version."""
    made: Obj = {**json.loads(json.dumps(obj)), "apiVersion": version}
    spec = made["spec"]
    if version.endswith("v1") and "host" in spec:
        spec["address"] = f"{spec.pop('host')}:{spec.pop('port')}"
    elif version.endswith("v2") and "address" in spec:
        spec["host"], _, spec["port"] = spec.pop("address").partition(":")
    return made


class Converter:
    """Replaces the webhook by a function."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        self.bend: Callable[[Obj], object] = lambda review: None
        """Changes the response."""
        self.failure = ""
        self.api: SimulatedCluster = new_cluster()
        self.api.create(CRDS, servers())
        monkeypatch.setattr(webhook_client, "_fetch_reply", self._fetch_reply)

    def kind(self, version: str) -> Kind:
        served = self.api.kinds.served("example.com", version)
        assert served is not None
        return served["servers"]

    def write(self, write: Callable[[Caller], Obj]) -> Obj:
        return write(Caller(manager="me"))

    def create(self, obj: Obj) -> Obj:
        version = obj["apiVersion"].rpartition("/")[2]
        return self.write(
            lambda caller: self.api.create(self.kind(version), obj, "default", caller=caller)
        )

    def read(self, version: str, name: str = "a") -> Obj:
        kind = self.kind(version)
        stored = self.api.entry(kind, name, "default").obj
        assert kind.structure is not None
        assert kind.structure.conversion is not None
        return asyncio.run(kind.structure.conversion.convert_for_read(stored, kind))

    async def _fetch_reply(self, call: WebhookCall) -> WebhookReply:
        return self._reply(call)

    def _reply(self, call: WebhookCall) -> WebhookReply:
        wanted = call.request["desiredAPIVersion"]
        self.asked.append(wanted.rpartition("/")[2])
        if self.failure:
            return WebhookReply("u", failure=f"failed to call webhook: {self.failure}")
        review: Obj = {
            "apiVersion": call.review["apiVersion"],
            "kind": call.review["kind"],
            "response": {
                "uid": "u",
                "result": {"status": "Success"},
                "convertedObjects": [converted(one, wanted) for one in call.request["objects"]],
            },
        }
        body = self.bend(review)
        return WebhookReply("u", body if isinstance(body, bytes) else json.dumps(review).encode())
