"""The server: a request to the room that answers it, a refusal to a Status.

Source: k8s.io/apiserver pkg/server/config.go, DefaultBuildHandlerChain.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_kwait.clock import async_sleep
from pytest_kwait.simulator.http.answer import add_heads, failure, json_answer, text_answer
from pytest_kwait.simulator.http.auth import Gate
from pytest_kwait.simulator.http.connections import HEADER_SECONDS, Connections
from pytest_kwait.simulator.http.discovery import serve_discovery
from pytest_kwait.simulator.http.doorway import Doorway
from pytest_kwait.simulator.http.handlers import Resources
from pytest_kwait.simulator.http.health import serve_health
from pytest_kwait.simulator.http.metrics import Tally
from pytest_kwait.simulator.http.openapi import serve_openapi
from pytest_kwait.simulator.http.paths import serve_paths
from pytest_kwait.simulator.http.request import ApiRequest, parse_target
from pytest_kwait.simulator.http.subresources import SubResources
from pytest_kwait.simulator.status_error import StatusError, method_not_allowed

if TYPE_CHECKING:
    import ssl

    from aiohttp import web

    from pytest_kwait.simulator.cluster_api import ClusterApi
    from pytest_kwait.simulator.http.auth import Credentials

__all__ = ["ApiServer"]

_HOST = re.compile(r"[-A-Za-z0-9!$%&'()*+,.:;=\[\]_~@]*")
_HALF_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_CONFIGURATION, _KEYS = ".well-known/openid-configuration", "openid/v1/jwks"
_OWN = "/kwait/v1/"
"""What begins so is the embedded cluster's own, for administrators."""
_CACHED = {"Cache-Control": "public, max-age=3600"}


class ApiServer:
    """One cluster behind HTTP.

    Args:
        api: the cluster.
        credentials: the tokens that are known.
        header_seconds: until a request's head must have come.
    """

    def __init__(
        self, api: ClusterApi, credentials: Credentials, header_seconds: float = HEADER_SECONDS
    ) -> None:
        self._api = api
        self._header_seconds = header_seconds
        self._gate = Gate(api, credentials)
        self._tally = Tally(api)
        self._resources = Resources(api, SubResources(api), self._gate)
        self._doorway: Doorway | None = None
        self._web: Connections | None = None

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None) -> int:
        """Listen; returns the port, which is a free one where `port` is 0.

        Raises:
            OSError: the port is taken, or the address is none of this machine's.
        """
        self._web = Connections(self.handle, self._header_seconds)
        self._doorway = Doorway(self._web, tls, self._header_seconds)
        return self._doorway.open(host, port)

    async def stop(self) -> None:
        """Close the listener and cut every connection, open watches included."""
        if self._doorway is not None:
            self._doorway.close()
        if self._web is not None:
            for protocol in self._web.connections:
                if protocol.transport is not None:
                    protocol.transport.abort()
            await async_sleep(0)

    async def handle(self, http: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        fault = _malformed(http)
        if fault:
            refusal = text_answer(fault, int(fault[:3]))
            refusal.force_close()
            return refusal
        request = ApiRequest(http)
        try:
            answer = await self._answer(request)
        except StatusError as error:
            answer = failure(request, error)
        self._tally.note(request, parse_target(request.path), answer.status)
        if not answer.prepared:
            add_heads(answer, request)
        return answer

    async def _answer(self, request: ApiRequest) -> web.StreamResponse:
        target = parse_target(request.path)
        self._gate.identify(request, target)
        self._gate.authorize(request, target)
        if self._api.kinds.elsewhere:
            obj = self._api.kinds.elsewhere.get(_group_version(request.path))
            if obj is not None:
                from pytest_kwait.simulator.aggregation.proxy import serve_elsewhere

                return await serve_elsewhere(self._api, request, obj)
        if target is not None:
            if self._api.faults.requests:
                await self._api.faults.meet(request, target)
            answer = await self._resources.handle(request, target)
        elif request.path.startswith(_OWN):
            # Not at import: hardly any suite breaks anything.
            from pytest_kwait.simulator.http.fault_requests import serve_faults

            answer = await serve_faults(self._api, request)
        else:
            answer = self._plain(request)
        return text_answer("404 page not found\n", 404) if answer is None else answer

    def _plain(self, request: ApiRequest) -> web.Response | None:
        kinds = self._api.kinds
        return (
            serve_health(request)
            or self._tally.serve(request)
            or serve_paths(request, kinds)
            or serve_discovery(request, kinds)
            or serve_openapi(request, kinds)
            or self._issuer(request, request.path.strip("/"))
        )

    def _issuer(self, request: ApiRequest, path: str) -> web.Response | None:
        """What others need to check tokens of service accounts by themselves."""
        if path not in (_CONFIGURATION, _KEYS):
            return None
        if request.method != "GET":
            raise method_not_allowed()
        if path == _CONFIGURATION:
            facts = self._api.accounts.discovery(f"https://{request.header('Host')}/{_KEYS}")
            return json_answer(request, facts, headers=_CACHED)
        media = {"Content-Type": "application/jwk-set+json"}
        return json_answer(request, self._api.accounts.key_set, headers={**_CACHED, **media})


def _group_version(path: str) -> tuple[str, str]:
    """The group and the version that a path names; empty for one that names none."""
    parts = path.split("/")
    return (parts[2], parts[3]) if parts[1] == "apis" and len(parts) > 3 else ("", "")


def _malformed(http: web.BaseRequest) -> str:
    """What is wrong with a request that could be read; empty where nothing is.

    Source: Go's net/http server.go, `readRequest`, and net/url, `unescape`.
    """
    major, minor = http.version
    if (major, minor) < (1, 0):
        return "400 Bad Request"
    if major != 1:
        return "505 HTTP Version Not Supported: unsupported protocol version"
    if _HOST.fullmatch(http.headers.get("Host", "")) is None:
        return "400 Bad Request: malformed Host header"
    if "%" in http.raw_path and _HALF_ESCAPE.search(http.raw_path.partition("?")[0]):
        return "400 Bad Request"
    return ""
