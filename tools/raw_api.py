"""A raw HTTP client of the API server that a kubeconfig names.

Requests are sent as given; responses are returned as received.
"""

from __future__ import annotations

import base64
import json
import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import urllib3
import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True)
class RawResponse:
    """A response of the server."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    data: bytes = field(repr=False)

    @property
    def text(self) -> str:
        """The body as text."""
        return self.data.decode()

    @property
    def body(self) -> Any:
        """The body as decoded JSON, or as text if it is not JSON."""
        try:
            return json.loads(self.data)
        except ValueError:
            return self.text


class RawClient:
    """One API server, reached with the credentials of a kubeconfig.

    Args:
        kubeconfig: the file; its current context is used.
        timeout: the limit of a request in seconds.
    """

    def __init__(self, kubeconfig: Path, *, timeout: float = 30.0) -> None:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        config = yaml.load(kubeconfig.read_text(), loader)
        context = _named(config["contexts"], config["current-context"])["context"]
        cluster = _named(config["clusters"], context["cluster"])["cluster"]
        user = _named(config["users"], context["user"])["user"]
        self.server: str = cluster["server"].rstrip("/")
        self.timeout = timeout
        self._headers: dict[str, str] = {}
        if "token" in user:
            self._headers["Authorization"] = f"Bearer {user['token']}"
        self._pool = _pool(_tls(kubeconfig.parent, cluster, user))
        self._others = _pool(_tls(kubeconfig.parent, cluster, {}))

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content_type: str | None = "application/json",
        headers: Mapping[str, str] | None = None,
        token: str | None = None,
        timeout: float | None = None,
    ) -> RawResponse:
        """Send one request and return the whole response, whatever its status.

        Args:
            method: the HTTP method.
            path: path and query, as they go on the wire.
            body: bytes or text sent unchanged, None for no body, anything else sent as JSON.
            content_type: the body's media type; None sends no such header.
            headers: further headers, which take precedence.
            token: a bearer token instead of the kubeconfig's; empty for none.
            timeout: seconds; None for the client's own.
        """
        response = self._open(
            method, path, body, content_type, headers, token, timeout or self.timeout, stream=False
        )
        # A header that was sent several times is one text, joined by commas.
        given = {name: response.headers[name] for name in response.headers}
        return RawResponse(response.status, given, response.data)

    def stream(self, path: str, *, timeout: float = 30.0) -> Iterator[dict[str, Any]]:
        """Yield the JSON lines of a watch until the server ends it."""
        response = self._open("GET", path, None, None, None, None, timeout, stream=True)
        try:
            rest = b""
            for chunk in response.stream(65536, decode_content=True):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield json.loads(line)
        finally:
            response.close()

    def _open(
        self,
        method: str,
        path: str,
        body: object,
        content_type: str | None,
        headers: Mapping[str, str] | None,
        token: str | None,
        timeout: float,
        *,
        stream: bool,
    ) -> urllib3.BaseHTTPResponse:
        sent, pool = dict(self._headers), self._pool
        if token is not None:
            sent.pop("Authorization", None)
            pool = self._others
            if token:
                sent["Authorization"] = f"Bearer {token}"
        data: bytes | None = None
        if body is not None:
            if isinstance(body, str):
                body = body.encode()
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            if content_type is not None:
                sent["Content-Type"] = content_type
        sent.update(headers or {})
        return pool.request(
            method,
            self.server + path,
            body=data,
            headers=sent,
            timeout=timeout,
            preload_content=not stream,
        )


def _pool(tls: ssl.SSLContext | None) -> urllib3.PoolManager:
    return urllib3.PoolManager(ssl_context=tls, retries=False, maxsize=8)


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(entry for entry in entries if entry["name"] == name)


def _tls(folder: Path, cluster: dict[str, Any], user: dict[str, Any]) -> ssl.SSLContext | None:
    if not cluster["server"].startswith("https:"):
        return None
    authority = _pem(folder, cluster, "certificate-authority")
    # The machine's authorities, which take a twentieth of a second to load, only where it has none.
    context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    certificate, key = _pem(folder, user, "client-certificate"), _pem(folder, user, "client-key")
    if certificate and key:
        with tempfile.TemporaryDirectory() as private:
            chain = Path(private, "client.pem")
            chain.touch(mode=0o600)
            chain.write_bytes(certificate + b"\n" + key)
            context.load_cert_chain(chain)
    return context


def _pem(folder: Path, entry: dict[str, Any], name: str) -> bytes | None:
    if f"{name}-data" in entry:
        return base64.b64decode(entry[f"{name}-data"])
    if name in entry:
        return Path(folder, entry[name]).read_bytes()
    return None
