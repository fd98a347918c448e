"""The index of the served paths.

Source: k8s.io/apiserver pkg/server/routes/index.go, pkg/endpoints/filters/requestinfo.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from pytest_kwait.simulator.apiserver.discovery import list_groups
from pytest_kwait.simulator.apiserver.healthz import HEALTH_CHECKS
from pytest_kwait.simulator.apiserver.request import SPECIAL_VERBS
from pytest_kwait.simulator.apiserver.request_metrics import METRICS_PATHS
from pytest_kwait.simulator.apiserver.responses import indent_json, text_response
from pytest_kwait.simulator.apiserver.statusz import STATUSZ_PATH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.apiserver.request import ApiRequest
    from pytest_kwait.simulator.scheme import Scheme

_INDEX_PATHS = ("/", "/index.html")
_STATIC_PATHS = (
    *METRICS_PATHS,
    STATUSZ_PATH,
    "/.well-known/openid-configuration",
    "/api",
    "/apis",
    "/apis/",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/",
    "/openid/v1/jwks",
    "/version",
)


def serve_index(request: ApiRequest, kinds: Scheme) -> web.Response | None:
    """Serve the index of paths, or an error; None for any other path."""
    path = request.path
    if path in _INDEX_PATHS:
        body = indent_json(msgspec.json.encode({"paths": sorted(_list_paths(kinds))}))
        return web.Response(body=body, headers={"Content-Type": "application/json"})
    parts = path.strip("/").split("/")
    verb = parts[2:] if parts[0] == "api" else parts[3:] if parts[0] == "apis" else []
    if len(verb) == 1 and verb[0] in SPECIAL_VERBS:
        return text_response(
            f'Internal Server Error: "{path}": failed to create RequestInfo: unable to determine '
            f"kind and namespace from url, {path}\n",
            500,
        )
    return None


def _list_paths(kinds: Scheme) -> Iterator[str]:
    yield from _STATIC_PATHS
    for path, checks in HEALTH_CHECKS.items():
        yield f"/{path}"
        yield from (f"/{path}/{check}" for check in checks)
    yield "/api/v1"
    for group in list_groups(kinds):
        yield f"/apis/{group['name']}"
        yield from (f"/apis/{entry['groupVersion']}" for entry in group["versions"])
