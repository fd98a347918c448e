"""HTTP to a real API server: blocking requests, and watches on the event loop.

Requests block the event loop on purpose: between two events nothing else runs, as in the embedded
cluster, where a write is a function call. What they return is newer than any event still unread.
"""

from __future__ import annotations

import http.client
import json
import ssl
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import msgspec

from pytest_kwait.clock import SYSTEM_CLOCK, Clock
from pytest_kwait.simulator.api_errors import StatusError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from aiohttp import ClientSession

    from pytest_kwait.simulator.objects import Obj

_TIMEOUT = 30.0
"""Seconds for the answer to a request."""
_MAX_IDLE_SECONDS = 30.0
"""After them a connection is opened anew: Go's server closes idle ones after 90."""
_RETRIES = 10
_MAX_PAUSE = 5.0
"""Seconds between retries, whatever the server's `Retry-After`.

Source of the retries: client-go rest/with_retry.go.
"""

_encode = msgspec.json.Encoder().encode


class Credentials(NamedTuple):
    """The files of a client certificate, and of the authority of the server's."""

    authority: Path
    certificate: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """Return the TLS context of connections.

        Raises:
            OSError: a file cannot be used.
        """
        context = ssl.create_default_context(cafile=str(self.authority))
        # The default from Python 3.13; envtest's certificates lack what it requires.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        context.load_cert_chain(self.certificate, self.key)
        return context


class Connection:
    """Requests to one server.

    Args:
        server: its URL.
        credentials: those of a user who may do everything.
        clock: the time of retries.
    """

    def __init__(self, server: str, credentials: Credentials, clock: Clock = SYSTEM_CLOCK) -> None:
        self.server = server
        self._address = urlsplit(server)
        self._context = credentials.context()
        self._clock = clock
        self._http: http.client.HTTPSConnection | None = None
        self._used_at = 0.0
        self._session: ClientSession | None = None

    def request(
        self,
        method: str,
        path: str,
        body: Obj | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Obj:
        """Send a request and return the answer.

        A server that is busy is asked again, as client-go does.

        Raises:
            StatusError: the server refused, or cannot be reached (503).
        """
        target = f"{path}?{urlencode(query)}" if query else path
        data = None if body is None else _encode(body)
        for remaining_tries in reversed(range(_RETRIES)):
            status, retry_after, answer = self._send(method, target, data)
            if remaining_tries and retry_after is not None and (status == 429 or status >= 500):
                self._clock.sleep(min(retry_after, _MAX_PAUSE))
                continue
            break
        content = _decode(answer)
        if status >= 400:
            raise _make_error(status, content, answer)
        return content

    def _send(
        self, method: str, target: str, data: bytes | None
    ) -> tuple[int, float | None, bytes]:
        """Return the status, the seconds of `Retry-After` and the body."""
        headers = {"Accept": "application/json", "User-Agent": "kwait-controllers"}
        if data is not None:
            headers["Content-Type"] = "application/json"
        now = self._clock.monotonic()
        if self._http is not None and now - self._used_at > _MAX_IDLE_SECONDS:
            self._close()
        if self._http is None:
            self._http = http.client.HTTPSConnection(
                self._address.hostname or "",
                self._address.port,
                timeout=_TIMEOUT,
                context=self._context,
            )
        try:
            self._http.request(method, target, data, headers)
            response = self._http.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._close()
            why = f"{self.server} does not answer: {error!r}"
            raise StatusError(503, "ServiceUnavailable", why) from error
        self._used_at = self._clock.monotonic()
        return response.status, _parse_seconds(response.headers.get("Retry-After")), answer

    def _close(self) -> None:
        if self._http is not None:
            self._http.close()
            self._http = None

    async def watch(self, path: str, query: Mapping[str, str]) -> AsyncIterator[Obj]:
        """Yield the events of a watch until the server ends it.

        Raises:
            StatusError: the server refused.
            OSError, aiohttp.ClientError: the connection failed.
        """
        session = self._open_session()
        async with session.get(f"{self.server}{path}", params={**query, "watch": "1"}) as response:
            if response.status >= 400:
                answer = await response.read()
                raise _make_error(response.status, _decode(answer), answer)
            rest = b""
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line:
                        yield msgspec.json.decode(line)

    def _open_session(self) -> ClientSession:
        if self._session is None:
            import aiohttp

            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ssl=self._context),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_TIMEOUT),
            )
        return self._session

    async def close(self) -> None:
        """Close all connections."""
        self._close()
        if self._session is not None:
            await self._session.close()


def _decode(answer: bytes) -> Obj:
    try:
        content: Any = msgspec.json.decode(answer)
    except msgspec.DecodeError:
        return {}
    return content if isinstance(content, dict) else {}


def _make_error(status: int, content: Obj, answer: bytes) -> StatusError:
    text = content.get("message") or answer.decode(errors="replace").strip() or json.dumps(content)
    return StatusError(status, str(content.get("reason") or ""), text, content.get("details"))


def _parse_seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isdecimal() else None
