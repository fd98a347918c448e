"""The OpenID discovery document, and the keys of service account tokens.

Source: k8s.io/kubernetes pkg/routes/openidmetadata.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from pytest_kwait.simulator.api_errors import method_not_allowed
from pytest_kwait.simulator.apiserver.responses import json_response

if TYPE_CHECKING:
    from pytest_kwait.simulator.apiserver.request import ApiRequest
    from pytest_kwait.simulator.cluster_protocol import TokenAuthority

_CONFIGURATION_PATH = "/.well-known/openid-configuration"
_KEYS_PATH = "/openid/v1/jwks"
_CACHED = {"Cache-Control": "public, max-age=3600"}
_KEYS_HEADERS = {**_CACHED, "Content-Type": "application/jwk-set+json"}


def serve_openid_metadata(request: ApiRequest, accounts: TokenAuthority) -> web.Response | None:
    """Serve the discovery document or the keys; None for any other path.

    Raises:
        StatusError: 405, the method is not GET.
    """
    path = f"/{request.path.strip('/')}"
    if path not in (_CONFIGURATION_PATH, _KEYS_PATH):
        return None
    if request.method != "GET":
        raise method_not_allowed()
    if path == _KEYS_PATH:
        return json_response(request, accounts.key_set, headers=_KEYS_HEADERS)
    document = accounts.discovery(f"https://{request.header('Host')}{_KEYS_PATH}")
    body = msgspec.json.encode(document)
    return web.Response(body=body, headers=_CACHED, content_type="application/json")
