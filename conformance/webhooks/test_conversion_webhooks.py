"""A custom kind of two versions, converted by a webhook."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from e2e.cluster.webhook_server import Server, serving
from tools.raw_api import RawClient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait import Kwait
    from tools.raw_api import RawResponse


Obj = dict[str, Any]

MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
TEXT = {"type": "string"}


def version(name: str, *, storage: bool, **fields: Obj) -> Obj:
    spec = {"type": "object", "properties": fields}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return {"name": name, "served": True, "storage": storage, "schema": schema}


def definition(server: Server, group: str) -> Obj:
    """Version 1 has an address; version 2, which is stored, a host and a port."""
    first = version("v1", storage=False, address={**TEXT, "maxLength": 20})
    first["selectableFields"] = [{"jsonPath": ".spec.address"}]
    first["additionalPrinterColumns"] = [
        {"name": "Address", "type": "string", "jsonPath": ".spec.address"}
    ]
    second = version("v2", storage=True, host=TEXT, port=TEXT, zone={**TEXT, "default": "z"})
    client = {
        "url": f"https://127.0.0.1:{server.server_port}/convert",
        "caBundle": base64.b64encode(server.ca).decode(),
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"servers.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "servers", "kind": "Server"},
            "conversion": {
                "strategy": "Webhook",
                "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client},
            },
            "versions": [first, second],
        },
    }


def convert(request: Obj) -> Obj:
    """Split addresses, join hosts and ports, and refuse port 666."""
    made = []
    for obj in request["objects"]:
        spec = obj.get("spec", {})
        if "666" in json.dumps(spec):
            return {"result": {"status": "Failed", "message": "not that port"}}
        if request["desiredAPIVersion"].endswith("/v1") and "host" in spec:
            spec["address"] = f"{spec.pop('host')}:{spec.pop('port', '0')}"
        elif request["desiredAPIVersion"].endswith("/v2") and "address" in spec:
            spec["host"], _, spec["port"] = spec.pop("address").partition(":")
        made.append({**obj, "apiVersion": request["desiredAPIVersion"]})
    return {"result": {"status": "Success"}, "convertedObjects": made}


class Servers:
    """The objects of one namespace, over HTTP.

    Args:
        kwait: the test's own part of the cluster.
        group: the kind's group.
    """

    def __init__(self, kwait: Kwait, group: str) -> None:
        self.group = group
        self._namespace = kwait.namespace
        self._endpoint = RawClient(kwait.cluster.kubeconfig)

    def path(self, version: str, rest: str = "") -> str:
        """Return their path in a version."""
        return f"/apis/{self.group}/{version}/namespaces/{self._namespace}/servers{rest}"

    def create(self, version: str, name: str, **spec: str) -> RawResponse:
        """Create one."""
        obj = {
            "apiVersion": f"{self.group}/{version}",
            "kind": "Server",
            "metadata": {"name": name},
            "spec": spec,
        }
        return self._endpoint.request("POST", self.path(version), obj)

    def get(self, version: str, rest: str = "", **headers: str) -> Any:
        """Read one, or all."""
        return self._endpoint.request("GET", self.path(version, rest), headers=headers).body

    def patch(self, version: str, rest: str, form: str, **spec: str) -> RawResponse:
        """Change one."""
        body: Obj = {"spec": spec}
        if form == APPLY:
            body |= {"apiVersion": f"{self.group}/{version}", "kind": "Server"}
        return self._endpoint.request("PATCH", self.path(version, rest), body, content_type=form)

    def follow(self, version: str, query: str) -> Iterator[Obj]:
        """Yield its changes."""
        return self._endpoint.stream(self.path(version, f"?watch=1&{query}"))


@pytest.fixture
def servers(kwait: Kwait) -> Iterator[Servers]:
    group = f"{kwait.namespace}.example.com"
    with serving(Server(convert)) as server:
        kwait.create(definition(server, group))
        kwait.wait_for_crd_established(f"servers.{group}", timeout="4m")
        yield Servers(kwait, group)
        kwait.delete(f"crd/servers.{group}")


def test_objects_are_shown_and_followed_in_every_version(servers: Servers) -> None:
    """Objects of both versions are readable, with defaults of the stored one."""
    assert servers.create("v1", "a", address="h:80").body["spec"] == {"address": "h:80"}
    servers.create("v2", "b", host="i", port="81")
    assert servers.get("v2", "/a")["spec"] == {"host": "h", "port": "80", "zone": "z"}
    assert servers.get("v1", "/b")["spec"] == {"address": "i:81"}

    found = servers.get("v1", "?fieldSelector=spec.address%3Di:81")
    assert [one["metadata"]["name"] for one in found["items"]] == ["b"]
    shown = servers.get("v1", **TABLE)
    assert [one["cells"] for one in shown["rows"]] == [["a", "h:80"], ["b", "i:81"]]

    since = found["metadata"]["resourceVersion"]
    servers.patch("v2", "/a", MERGE, host="j")
    event = next(servers.follow("v1", f"resourceVersion={since}&timeoutSeconds=30"))
    assert (event["type"], event["object"]["spec"]) == ("MODIFIED", {"address": "j:80"})
    event = next(servers.follow("v1", "timeoutSeconds=30"))
    assert (event["type"], event["object"]["spec"]) == ("ADDED", {"address": "j:80"})


def test_changes_and_refusals(servers: Servers) -> None:
    """Managers keep their version; inconvertible objects are refused."""
    servers.create("v2", "a", host="h", port="80", zone="y")
    assert servers.patch("v1", "/a", MERGE, address="i:80").body["spec"] == {"address": "i:80"}
    assert servers.get("v2", "/a")["spec"] == {"host": "i", "port": "80", "zone": "z"}

    conflict = servers.patch("v1", "/a?fieldManager=t", APPLY, address="j:80")
    assert conflict.status == 409
    applied = servers.patch("v1", "/a?fieldManager=t&force=1", APPLY, address="j:80").body
    fields = [one["fieldsV1"] for one in applied["metadata"]["managedFields"]]
    assert {"f:spec": {"f:address": {}}} in fields
    assert {"f:spec": {".": {}, "f:port": {}, "f:zone": {}}} in fields

    refused = servers.create("v1", "b", address="h:666")
    which = f"{servers.group}/v1, Kind=Server"
    assert refused.status == 500
    assert refused.body["message"] == f"conversion webhook for {which} failed: not that port"
    assert servers.get("v1", "/b")["reason"] == "NotFound"

    long = servers.create("v1", "b", address="a-host-of-a-long-name:80")
    assert long.body["details"]["causes"][0]["field"] == "spec.address"

    servers.create("v2", "b", host="h", port="666")
    unseen = servers.get("v1", "/b")
    which = f"{servers.group}/v2, Kind=Server"
    assert unseen["message"] == f"conversion webhook for {which} failed: not that port"
    assert [one["metadata"]["name"] for one in servers.get("v2")["items"]] == ["a", "b"]
