"""Discovery: the served groups, versions and resources, aggregated or not.

Source: k8s.io/apiserver pkg/endpoints/discovery.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from pytest_kwait.simulator.api_errors import method_not_allowed, resource_not_found
from pytest_kwait.simulator.apiserver.request import (
    AGGREGATED,
    PRODUCED,
    check_produced,
    negotiate_discovery,
)
from pytest_kwait.simulator.apiserver.responses import encode_body, indent_json, json_response

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.apiserver.request import ApiRequest, ResponseForm
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.scheme import Kind, Scheme, SubResource


def serve_discovery(request: ApiRequest, kinds: Scheme) -> web.Response | None:
    """Serve a discovery path; None for any other path.

    Raises:
        StatusError: 404 for an unknown version of a known group.
    """
    parts = request.path.removeprefix("/").rstrip("/").split("/")
    accept = request.header("Accept")
    match parts:
        case ["version"]:
            _check_route(request, ("application/json",))
            # Indented for every client. Source: k8s.io/apiserver pkg/server/routes/version.go.
            body = indent_json(msgspec.json.encode(kinds.version))
            return web.Response(body=body, content_type="application/json")
        case ["version", *_]:
            raise resource_not_found()
        case ["api" | "apis"] if form := negotiate_discovery(accept):
            return _aggregated_groups(request, kinds, parts[0], form)
        case ["api"]:
            _check_route(request, PRODUCED)
            server = request.header("Host")
            addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": server}]
            return json_response(
                request,
                {
                    "kind": "APIVersions",
                    "versions": ["v1"],
                    "serverAddressByClientCIDRs": addresses,
                },
            )
        case ["apis"]:
            return json_response(
                request, {"kind": "APIGroupList", "apiVersion": "v1", "groups": list_groups(kinds)}
            )
        case ["apis", name]:
            for group in list_groups(kinds):
                if group["name"] == name:
                    return json_response(request, {"kind": "APIGroup", "apiVersion": "v1", **group})
            return None
        case ["api", version]:
            return _resource_list(request, kinds, "", version)
        case ["apis", name, version]:
            if not any(group["name"] == name for group in list_groups(kinds)):
                return None
            return _resource_list(request, kinds, name, version)
        case _:
            return None


def _check_route(request: ApiRequest, produced: tuple[str, ...]) -> None:
    """Check the method and the Accept header of a route.

    Raises:
        StatusError: 405 for another method than GET, 406 for an unsupported form.
    """
    if request.method != "GET":
        raise method_not_allowed()
    check_produced(request.header("Accept"), produced)


def list_groups(kinds: Scheme) -> list[Obj]:
    """List the served groups: built-in, custom, aggregated."""
    listed = []
    for group in kinds.groups:
        versions = [
            entry for entry in group["versions"] if kinds.served(group["name"], entry["version"])
        ]
        listed.append({**group, "versions": versions})
    known = {group["name"] for group in listed}
    custom: dict[str, list[str]] = {}
    for name, version in kinds.group_versions():
        if name and name not in known:
            custom.setdefault(name, []).append(version)
    for name, version in kinds.elsewhere:
        custom.setdefault(name, []).append(version)
    for name, versions in custom.items():
        entries = [
            {"groupVersion": f"{name}/{version}", "version": version} for version in versions
        ]
        listed.append({"name": name, "versions": entries, "preferredVersion": entries[0]})
    return listed


def _resource_list(
    request: ApiRequest, kinds: Scheme, group: str, version: str
) -> web.Response | None:
    served = kinds.served(group, version)
    if served is None:
        if kinds.built_in(group):
            raise resource_not_found()
        return None
    _check_route(request, PRODUCED)
    body: Obj = {"kind": "APIResourceList"}
    if group:
        body["apiVersion"] = "v1"
    body["groupVersion"] = f"{group}/{version}" if group else version
    body["resources"] = [entry for kind in served.values() for entry in _resource_entries(kind)]
    return json_response(request, body)


def _resource_entries(kind: Kind) -> Iterator[Obj]:
    entry: Obj = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    if kind.storage_version_hash:
        entry["storageVersionHash"] = kind.storage_version_hash
    yield entry
    for sub in kind.subresources.values():
        entry = {
            "name": f"{kind.plural}/{sub.name}",
            "singularName": "",
            "namespaced": kind.namespaced,
        }
        if (sub.group, sub.version) != (kind.group, kind.version):
            if sub.group:
                entry["group"] = sub.group
            entry["version"] = sub.version
        entry["kind"] = sub.kind
        entry["verbs"] = list(sub.verbs)
        yield entry


def _aggregated_groups(
    request: ApiRequest, kinds: Scheme, root: str, form: ResponseForm
) -> web.Response:
    core: list[Obj] = [{"name": "", "versions": [{"version": "v1"}]}]
    listed = core if root == "api" else list_groups(kinds)
    items = []
    for group in listed:
        versions = []
        for entry in group["versions"]:
            served = kinds.served(group["name"], entry["version"]) or {}
            key = (group["name"], entry["version"])
            if key in kinds.elsewhere:
                resource_list = kinds.discovered.get(key)
                content: Obj = {"freshness": "Stale"}
                if resource_list is not None:
                    content = {"resources": resource_list, "freshness": "Current"}
                versions.append({"version": entry["version"], **content})
                continue
            versions.append(
                {
                    "version": entry["version"],
                    "resources": [_aggregated_resource(kind) for kind in served.values()],
                    "freshness": "Current",
                }
            )
        metadata: Obj = {"name": group["name"]} if group["name"] else {}
        items.append({"metadata": metadata, "versions": versions})
    body = {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }
    tag = f'"{hashlib.sha512(msgspec.json.encode(body)).hexdigest().upper()}"'
    headers = {
        "Content-Type": AGGREGATED,
        "ETag": tag,
        "Vary": "Accept",
        "Cache-Control": "public",
    }
    if request.header("If-None-Match") == tag:
        return web.Response(status=304, headers=headers)
    return encode_body(request, form, body, 200, headers)


def _aggregated_resource(kind: Kind) -> Obj:
    entry: Obj = {
        "resource": kind.plural,
        "responseKind": _response_kind(kind, kind),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    if kind.subresources:
        entry["subresources"] = [
            {
                "subresource": sub.name,
                "responseKind": _response_kind(kind, sub),
                "verbs": list(sub.verbs),
            }
            for sub in kind.subresources.values()
        ]
    return entry


def to_aggregated(listed: list[Obj], group: str, version: str) -> list[Obj]:
    """Convert an APIResourceList to the aggregated form.

    Args:
        listed: its entries.
        group: the default group.
        version: the default version.
    """
    resources: dict[str, Obj] = {}
    for api_resource in listed:
        name, _, sub = str(api_resource.get("name", "")).partition("/")
        kind = {
            "group": api_resource.get("group") or group,
            "version": api_resource.get("version") or version,
            "kind": api_resource.get("kind", ""),
        }
        entry: Obj = {"responseKind": kind, "verbs": api_resource.get("verbs") or []}
        if sub:
            of = resources.setdefault(name, {"resource": name})
            of.setdefault("subresources", []).append({"subresource": sub, **entry})
            continue
        entry["scope"] = "Namespaced" if api_resource.get("namespaced") else "Cluster"
        entry["singularResource"] = api_resource.get("singularName", "")
        for field in ("shortNames", "categories"):
            if api_resource.get(field):
                entry[field] = api_resource[field]
        resources.setdefault(name, {"resource": name}).update(entry)
    return [*resources.values()]


def _response_kind(kind: Kind, source_kind: Kind | SubResource) -> Obj:
    """Return the response kind of a resource; empty fields for the group's own."""
    group, version = source_kind.group, source_kind.version
    if not kind.custom and (group, version) == (kind.group, kind.version):
        group = version = ""
    return {"group": group, "version": version, "kind": source_kind.kind}
