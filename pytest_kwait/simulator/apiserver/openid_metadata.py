"""The OpenID discovery document, and the keys of service account tokens.

Source: k8s.io/kubernetes pkg/routes/openidmetadata.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from pytest_kwait.simulator.api_errors import method_not_allowed
from pytest_kwait.simulator.apiserver.request import check_produced

if TYPE_CHECKING:
    from pytest_kwait.simulator.apiserver.request import ApiRequest
    from pytest_kwait.simulator.cluster_protocol import TokenAuthority

_CONFIGURATION_PATH = "/.well-known/openid-configuration"
_KEYS_PATH = "/openid/v1/jwks"
_CACHED = {"Cache-Control": "public, max-age=3600"}


def serve_openid_metadata(request: ApiRequest, accounts: TokenAuthority) -> web.Response | None:
    """Serve the discovery document or the keys; None for any other path.

    Raises:
        StatusError: 405, the method is not GET; 406, the media type is not accepted.
    """
    path = f"/{request.path.strip('/')}"
    if path not in (_CONFIGURATION_PATH, _KEYS_PATH):
        return None
    if request.method != "GET":
        raise method_not_allowed()
    keys = path == _KEYS_PATH
    media = "application/jwk-set+json" if keys else "application/json"
    check_produced(request.header("Accept"), (media,))
    content = accounts.key_set
    if not keys:
        content = accounts.discovery(f"https://{request.header('Host')}{_KEYS_PATH}")
    return web.Response(body=msgspec.json.encode(content), headers=_CACHED, content_type=media)
