"""The server of health checks, metrics and zpages: HTTPS, or HTTP at the insecure port.

It has one thread per connection: a slow or silent client blocks only its own thread, including the
handshake, and is dropped after a timeout; the server's end waits for no connection. The serving
certificate is given, stored in a folder, or generated for this run.

Source: apiserver, pkg/server/healthz/healthz.go, pkg/server/options/serving.go; component-base,
zpages.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import os
import socket
import ssl
import tempfile
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from pytest_kwait.apimachinery.go_values import quote_go
from pytest_kwait.apimachinery.times import format_duration
from pytest_kwait.errors import ApiError, KwaitError
from pytest_kwait.scheduler.command import CommandError, expand_home
from pytest_kwait.scheduler.command.configuration import encode_configuration
from pytest_kwait.scheduler.command.flags import CIPHER_SUITES, PROGRAM, TLS_VERSIONS
from pytest_kwait.wait import DeadlineExceeded
from pytest_kwait.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from pytest_kwait.scheduler.command.configuration import Configuration
    from pytest_kwait.scheduler.command.delegated_auth import Authenticator, DelegatedAuthorizer
    from pytest_kwait.scheduler.command.flags import Flags

_log = logging.getLogger(__name__)
_TEXT = "text/plain; charset=utf-8"
_JSON = "application/json"
_NO_SNIFF = {"X-Content-Type-Options": "nosniff"}

_IDLE_TIMEOUT = 90.0
"""Seconds that a connection may wait for its next request."""
_READ_TIMEOUT = 32.0
"""Seconds that a client has for its handshake, and between the parts of a request."""

_PAIR = "kube-scheduler"


class UnhealthyError(KwaitError):
    """A health check failed; the text gives the reason."""


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """A health check.

    Args:
        name: its name and path: `/healthz/<name>`.
        check: raises a `KwaitError` if it fails.
    """

    name: str
    check: Callable[[], object]


PING = HealthCheck("ping", lambda: None)
"""Always passes; replaces an empty list of checks."""


def format_health_report(
    name: str, checks: Sequence[HealthCheck], *, excluded: Collection[str] = (), verbose: bool
) -> tuple[int, str]:
    """Return the status and the text of all checks.

    Args:
        name: the endpoint's, for example `healthz`.
        checks: the checks; none is the same as a ping.
        excluded: the names of checks to leave out.
        verbose: whether to list the checks if all pass; they are always listed if one fails.
    """
    lines, failed, reasons = [], [], []
    checks = checks or [PING]
    for check in checks:
        if check.name in excluded:
            lines.append(f"[+]{check.name} excluded: ok")
            continue
        try:
            check.check()
        except KwaitError as error:
            # This path is public; the reason is shown only at the path of the check itself.
            lines.append(f"[-]{check.name} failed: reason withheld")
            failed.append(check.name)
            reasons.append(f"[-]{check.name} failed: {error}")
        else:
            lines.append(f"[+]{check.name} ok")
    known = {check.name for check in checks}
    unknown = sorted(set(excluded) - known)
    if unknown:
        names = ",".join(f'"{unknown_name}"' for unknown_name in unknown)
        lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
    if failed:
        _log.info("%s check failed: %s\n%s", name, ",".join(failed), "\n".join(reasons))
        return 500, "\n".join([*lines, f"{name} check failed", ""])
    if verbose:
        return 200, "\n".join([*lines, f"{name} check passed", ""])
    return 200, "ok"


@dataclass(frozen=True, slots=True)
class HTTPRequest:
    """A request.

    Args:
        target: path and query as sent.
        headers: by their names in lower case.
        certificate: the trusted client certificate as `ssl` has it; None without one.
    """

    method: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict)
    certificate: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class HTTPResponse:
    """An HTTP response."""

    status: int
    body: bytes
    content_type: str = _TEXT
    headers: Mapping[str, str] = field(default_factory=dict)


class Routes:
    """The paths of the program.

    Args:
        health: the checks of `/healthz`, `/livez` and `/readyz` by these names.
        pages: the functions of other paths: from the Accept header to content type and content.
        authenticator: authenticates requests; None to serve any caller, as at the insecure port.
        authorizer: authorizes them.

    Source: cmd/kube-scheduler/app/server.go newEndpointsHandler, buildHandlerChain.
    """

    def __init__(
        self,
        health: Mapping[str, Sequence[HealthCheck]],
        pages: Mapping[str, Callable[[str], tuple[str, bytes]]],
        authenticator: Authenticator | None = None,
        authorizer: DelegatedAuthorizer | None = None,
    ) -> None:
        self._health = {name: checks or (PING,) for name, checks in health.items()}
        self._pages = pages
        self._authenticator = authenticator
        self._authorizer = authorizer

    def insecure(self) -> Routes:
        """Return the same paths without authentication."""
        return Routes(self._health, self._pages)

    def answer(self, question: HTTPRequest) -> HTTPResponse:
        """Answer a request; 401 for bad credentials, 403 without access, 404 for unknown paths."""
        parts = urlsplit(question.target)
        path = parts.path or "/"
        refusal = self._refusal(question, path)
        if refusal is not None:
            return refusal
        if question.method not in ("GET", "HEAD"):
            return HTTPResponse(
                405, b"405 method not allowed\n", headers={**_NO_SNIFF, "Allow": "GET"}
            )
        name, _, check = path.removeprefix("/").partition("/")
        if name in self._health and (check or not path.endswith("/")):
            return self._report(name, check, parse_qs(parts.query, keep_blank_values=True))
        page = self._pages.get(path)
        if page is None:
            return HTTPResponse(404, b"404 page not found\n", headers=_NO_SNIFF)
        content_type, content = page(question.headers.get("accept", ""))
        return HTTPResponse(200, content, content_type)

    def _refusal(self, question: HTTPRequest, path: str) -> HTTPResponse | None:
        if self._authenticator is None or self._authorizer is None:
            return None
        user = self._authenticator.authenticate(
            question.headers.get("authorization"), question.certificate
        )
        if user is None:
            return _make_status(401, "Unauthorized", "Unauthorized")
        verb = question.method.lower()
        try:
            permission = self._authorizer.authorize(user, verb, path)
        except (ApiError, DeadlineExceeded) as error:
            _log.error("%s %s: cannot be authorized: %s", question.method, path, error)
            text = f"Internal Server Error: {quote_go(question.target)}: {error}\n"
            return HTTPResponse(500, _escape_html(text).encode(), headers=_NO_SNIFF)
        if permission.allowed:
            return None
        detail = _escape_html(f"User {quote_go(user.name)} cannot {verb} path {quote_go(path)}")
        why = f": {permission.reason}" if permission.reason else ""
        return _make_status(403, "Forbidden", f"forbidden: {detail}{why}", details={})

    def _report(self, name: str, check: str, query: Mapping[str, Sequence[str]]) -> HTTPResponse:
        checks = self._health[name]
        if not check:
            status, text = format_health_report(
                name, checks, excluded=query.get("exclude", ()), verbose="verbose" in query
            )
            return HTTPResponse(status, text.encode(), headers=_NO_SNIFF)
        for health_check in checks:
            if health_check.name == check:
                try:
                    health_check.check()
                except KwaitError as error:
                    return HTTPResponse(
                        500, f"internal server error: {error}\n".encode(), headers=_NO_SNIFF
                    )
                return HTTPResponse(200, b"ok")
        return HTTPResponse(404, b"404 page not found\n", headers=_NO_SNIFF)


def _make_status(code: int, reason: str, message: str, **more: object) -> HTTPResponse:
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        **more,
        "code": code,
    }
    return HTTPResponse(code, json.dumps(status, indent=2).encode(), _JSON, _NO_SNIFF)


def _escape_html(text: str) -> str:
    """Escape the text so that browsers do not parse it as HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


class Server:
    """A server that listens once created and serves requests once started.

    Args:
        address: the address to listen on; an unspecified one is all addresses of both families.
        port: the port; 0 for any free one.
        endpoints: the paths.
        tls: the TLS context; None for plain HTTP.
        share_port: whether other processes may listen on the same port.

    Raises:
        CommandError: the address is in use, or does not belong to this host.
    """

    def __init__(
        self,
        address: str,
        port: int,
        endpoints: Routes,
        tls: ssl.SSLContext | None,
        *,
        share_port: bool = False,
    ) -> None:
        try:
            listener = _make_listener(address, port, share=share_port)
        except OSError as error:
            at = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
            why = os.strerror(error.errno).lower() if error.errno else str(error)
            raise CommandError(
                f"failed to create listener: failed to listen on {at}: listen tcp {at}: bind: {why}"
            ) from None
        self._server = _ThreadedServer(listener, endpoints, tls)
        self.port: int = listener.getsockname()[1]
        """The port it listens on."""
        self._worker = Worker(
            f"kwait-scheduler-serving-{self.port}", lambda: self._server.serve_forever(0.1)
        )

    def start(self) -> None:
        """Start to serve requests."""
        self._worker.start()

    def stop(self) -> None:
        """Stop listening; pending requests continue in their threads."""
        if self._worker.is_started:
            self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _READ_TIMEOUT
    wbufsize = 1 << 16  # an answer is one write, and often one packet
    server: _ThreadedServer

    def handle_one_request(self) -> None:
        """Handle one request, with a longer timeout for its first line than for the rest."""
        self.connection.settimeout(_IDLE_TIMEOUT)
        super().handle_one_request()

    def parse_request(self) -> bool:
        """Read the headers within a timeout."""
        self.connection.settimeout(_READ_TIMEOUT)
        return super().parse_request()

    def answer(self) -> None:
        """Answer the request; a body is not read, so the connection is closed after it."""
        if self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers:
            self.close_connection = True
        certificate = None
        if isinstance(self.connection, ssl.SSLSocket):
            certificate = self.connection.getpeercert() or None
        answer = self.server.endpoints.answer(
            HTTPRequest(
                self.command,
                self.path,
                {name.lower(): value for name, value in self.headers.items()},
                certificate,
            )
        )
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Cache-Control", "no-cache, private")
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = answer  # noqa: N815 # http.server finds them by these names

    def version_string(self) -> str:
        """Return the program's name, without its platform."""
        return PROGRAM

    def log_message(self, format: str, *args: Any) -> None:
        """Log requests at detail verbosity."""
        _log.debug("%s " + format, self.client_address[0], *args)


class _ThreadedServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(
        self, listener: socket.socket, endpoints: Routes, tls: ssl.SSLContext | None
    ) -> None:
        super().__init__(listener.getsockname()[:2], _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.endpoints = endpoints
        self._tls = tls

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection, handshake included, in its own thread."""
        request.settimeout(_READ_TIMEOUT)
        if self._tls is None:
            super().finish_request(request, client_address)
            return
        with self._tls.wrap_socket(request, server_side=True) as connection:
            super().finish_request(connection, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log a client that disconnected, is too slow, or does not use TLS."""
        import sys

        error = sys.exception() if hasattr(sys, "exception") else sys.exc_info()[1]
        if isinstance(error, OSError):
            _log.debug("connection from %s: %s", client_address[0], error)
        else:
            _log.exception("connection from %s", client_address[0])


def _make_listener(address: str, port: int, *, share: bool) -> socket.socket:
    ip = ipaddress.ip_address(address)
    if ip.is_unspecified and socket.has_dualstack_ipv6():
        return socket.create_server(
            ("::", port),
            family=socket.AF_INET6,
            dualstack_ipv6=True,
            backlog=128,
            reuse_port=share,
        )
    family = socket.AF_INET6 if ip.version == 6 else socket.AF_INET
    return socket.create_server((address, port), family=family, backlog=128, reuse_port=share)


def render_configz(configuration: Configuration) -> tuple[str, bytes]:
    """Return the current configuration as JSON.

    Source: component-base configz/configz.go.
    """
    content = json.dumps(
        {"componentconfig": encode_configuration(configuration)}, separators=(",", ":")
    )
    return "application/json", content.encode()


def render_flagz(flags: Flags) -> tuple[str, bytes]:
    """Return the current flags as plain text.

    Source: apiserver pkg/server/flagz/flagz.go.
    """
    lines = [f"{name}: {_format_flag(value)}" for name, value in flags.pairs()]
    head = ["", f"{PROGRAM} flagz", "For people to read: the form may change."]
    return "text/plain; charset=utf-8", "\n".join([*head, *lines, ""]).encode()


def _format_flag(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return f"[{','.join(value)}]"
    return format_duration(value) if isinstance(value, float) else str(value)


def make_tls_context(
    *,
    certificate: str,
    key: str,
    folder: str,
    address: str,
    client_ca: str | None,
    min_version: str = "",
    cipher_suites: Sequence[str] = (),
) -> ssl.SSLContext:
    """Return the server's TLS context.

    Args:
        certificate: the file of the certificate; empty to use the folder.
        key: the file of its key.
        folder: the folder of a self-signed pair, created if absent; empty to keep one in memory.
        address: the address of a self-signed certificate.
        client_ca: the authorities of client certificates as PEM; None to request no certificate.
        min_version: a key of `TLS_VERSIONS`; empty for TLS 1.2.
        cipher_suites: keys of `CIPHER_SUITES`; empty for the library's choice.

    Raises:
        CommandError: files that are unreadable, not writable, or not a pair.

    Source: apiserver pkg/server/options/serving.go MaybeDefaultWithSelfSignedCerts.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = TLS_VERSIONS[min_version or "VersionTLS12"]
    ciphers = [name for name in map(CIPHER_SUITES.__getitem__, cipher_suites) if name is not None]
    if ciphers:
        context.set_ciphers(":".join(ciphers))
    elif cipher_suites:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["http/1.1"])
    if certificate or key:
        _load(context, Path(certificate), Path(key))
    elif folder:
        pair = Path(folder, f"{_PAIR}.crt"), Path(folder, f"{_PAIR}.key")
        if not _has_pair(*pair):
            _write_pair(*pair, *_make_self_signed(address))
            _log.info("Generated self-signed cert (%s, %s)", *pair)
        _load(context, *pair)
    else:
        _load_generated(context, *_make_self_signed(address))
        _log.info("Generated self-signed cert in-memory")
    if client_ca is not None:
        try:
            context.load_verify_locations(cadata=client_ca)
        except (ssl.SSLError, ValueError) as error:
            raise CommandError(f"unable to load client CA provider: {error}") from None
        # A client without a certificate is anonymous or has a token.
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def read_client_authorities(path: str) -> str:
    """Return the authorities of client certificates in a file as PEM.

    Raises:
        CommandError: the file is unreadable, or has no certificate.
    """
    try:
        pem = expand_home(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise CommandError(f"unable to load client CA provider: open {path}: {why}") from None
    if "-----BEGIN CERTIFICATE-----" not in pem:
        raise CommandError(f"unable to load client CA provider: {path} has no certificates")
    return pem


def _load(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    try:
        context.load_cert_chain(certificate, key, password=_refuse_password)
    except OSError as error:
        why = error.strerror or str(error)
        if isinstance(error, ssl.SSLError):
            why = "they are not a certificate and its key"
        raise CommandError(
            f"unable to load server certificate {certificate}, {key}: {why}"
        ) from None


def _load_generated(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    # OpenSSL's Python binding reads a pair only from files.
    with tempfile.TemporaryDirectory(prefix="kwait-scheduler-") as folder:
        pair = Path(folder, "tls.crt"), Path(folder, "tls.key")
        _write_pair(*pair, certificate, key)
        _load(context, *pair)


def _refuse_password() -> bytes:
    """Fail instead of letting OpenSSL prompt on the terminal."""
    return b""


def _has_pair(certificate: Path, key: Path) -> bool:
    """Return whether both files exist.

    Source: client-go util/cert/io.go CanReadCertAndKey.
    """
    there = [os.access(path, os.R_OK) for path in (certificate, key)]
    if any(there) and not all(there):
        missing = key if there[0] else certificate
        raise CommandError(
            f"error reading {missing}, certificate and key must be supplied as a pair"
        )
    return all(there)


def _write_pair(certificate_path: Path, key_path: Path, certificate: bytes, key: bytes) -> None:
    for path, content, mode in ((certificate_path, certificate, 0o644), (key_path, key, 0o600)):
        try:
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
        except OSError as error:
            raise CommandError(f"open {path}: {error.strerror}") from None


def _make_self_signed(address: str) -> tuple[bytes, bytes]:
    """Create a self-signed certificate for localhost and the address, and its key, as PEM."""
    import trustme  # imported late: it takes 60 ms, and few schedulers need it

    authority = trustme.CA()
    hosts = ["localhost", "127.0.0.1"]
    if address not in {"0.0.0.0", "::", *hosts}:  # noqa: S104 # compared with, not listened on
        hosts.append(address)
    leaf = authority.issue_cert(*hosts)
    chain = b"".join(pem.bytes() for pem in leaf.cert_chain_pems)
    return chain + authority.cert_pem.bytes(), leaf.private_key_pem.bytes()
