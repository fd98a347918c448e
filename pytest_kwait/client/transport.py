"""The transport: send requests over the user's client, within hard limits."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlencode

import urllib3
from urllib3.exceptions import HTTPError

from pytest_kwait.client.availability import Availability, ClusterEnded, availability_of
from pytest_kwait.client.deadlines import Cause, Guard, guard_connections, make_guarded_manager
from pytest_kwait.client.errors import (
    get_connection_error_reason,
    make_connection_error,
    make_response_error,
)
from pytest_kwait.client.responses import Response
from pytest_kwait.errors import ApiError, InvalidArgument
from pytest_kwait.wait import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kubernetes.client import ApiClient
    from urllib3.connection import HTTPConnection

    from pytest_kwait.client.certificate_client import CertificateClient
    from pytest_kwait.clock import Clock, Deadline

JSON = "application/json"
TRANSPORT_ERRORS = (HTTPError, OSError, ValueError)
"""The exceptions of a request without an answer; `Transport.failure` translates them."""


_LONGEST_CONNECT = 3600.0
"""Seconds for connecting to a server, of which the system itself gives up after two minutes."""


def encode_header(text: str) -> str:
    """Return a text whose characters are the bytes of its UTF-8, as http.client sends them."""
    return text.encode().decode("latin-1")


def pin_settings(configuration: Any, settings: Mapping[str, Any]) -> None:
    """Set connection settings of a client, and keep them when its credentials are refreshed.

    The hook of a loaded kubeconfig with a token sets everything that the file says again, server
    and hook included, before the first request and whenever the token has expired.

    Args:
        configuration: the official client's `Configuration`; changed in place.
        settings: values by attribute name, for example `{"host": "https://127.0.0.1:6443"}`.
    """
    refresh = configuration.refresh_api_key_hook

    def refresh_and_pin(_: Any = None) -> None:
        if refresh is not None:
            refresh(configuration)
        configuration.refresh_api_key_hook = refresh_and_pin
        for name, value in settings.items():
            setattr(configuration, name, value)

    refresh_and_pin()


class _ServerPool:
    """The connections to the server at one address.

    Args:
        manager: has them.
        address: the URL of the server, which may have a path.
    """

    def __init__(self, manager: urllib3.PoolManager, address: str) -> None:
        self.manager = manager
        self.address = address
        path_at = address.find("/", address.index("//") + 2)
        self.origin_length = len(address) if path_at < 0 else path_at
        self.urlopen = manager.connection_from_url(address).urlopen


class Transport:
    """Sends the requests of one `ApiClient`.

    Address, TLS, proxy, credentials and headers come from the client. Connections are separate, so
    the client's own requests are not affected. Nothing is retried or redirected.

    Args:
        client: the official client, synchronous, or one with a certificate.
        clock: for dates in Retry-After.
        on_headers: called with the headers of each answer.

    Raises:
        InvalidArgument: not a synchronous client.
    """

    def __init__(
        self,
        client: ApiClient | CertificateClient,
        clock: Clock,
        on_headers: Callable[[Mapping[str, str]], None] = lambda headers: None,
    ) -> None:
        self._client = client
        self.clock = clock
        self._on_headers = on_headers
        self.further_headers: tuple[tuple[str, str], ...] = ()
        """Names, which may be repeated, and values of headers that each request has too."""
        self._lock = threading.Lock()
        self._credentials = threading.Lock()
        self._source: urllib3.PoolManager | None = None
        self._own: urllib3.PoolManager | None = None
        self._pool: _ServerPool | None = None
        self._pools()

    @property
    def address(self) -> str:
        """The server's address."""
        return (self._client.configuration.host or "").rstrip("/")

    @property
    def availability(self) -> Availability:
        """The availability of the server."""
        return availability_of(self.address)

    @property
    def credentials(self) -> frozenset[str]:
        """The secrets that authorize requests, as currently held by the client."""
        settings, headers = self._client.configuration, self._client.default_headers
        held = [*settings.api_key.values(), settings.password]
        held += [v for k, v in headers.items() if k.lower() in {"authorization", "cookie"}]
        return frozenset(word for text in held if text for word in str(text).split())

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: bytes | None = None,
        content_type: str | None = None,
        accept: str = JSON,
        deadline: Deadline,
    ) -> Response:
        """Send a request and return the whole answer.

        Raises:
            ApiError: an answer of status 300 or more, or none.
            DeadlineExceeded: the answer was not complete in time.
        """
        guard = self.guard(method, path, deadline)
        try:
            answer = self._exchange(method, path, query, body, content_type, accept, guard)
            data = answer.data
        except TRANSPORT_ERRORS as error:
            guard.release()
            raise self.failure(method, path, guard, error) from error
        finally:
            guard.release()
        # A shutdown in the middle of the headers can look like a complete, empty answer.
        if guard.cause is not None:
            raise self.failure(method, path, guard, None)
        self.availability.record_answer(guard)
        self._on_headers(answer.headers)
        if answer.status >= 300:
            raise make_response_error(method, path, answer.status, answer.headers, data, self.clock)
        return Response(answer.status, answer.headers, data)

    def open(
        self, path: str, *, query: Mapping[str, Any], accept: str = JSON, guard: Guard
    ) -> urllib3.BaseHTTPResponse:
        """Send a GET and return the answer with an unread body.

        The guard keeps the answer's socket; the caller must release it.

        Raises:
            urllib3.exceptions.HTTPError, OSError, ValueError: see `failure`.
            ApiError: an answer of status 300 or more.
        """
        answer = self._exchange("GET", path, query, None, None, accept, guard, stream=True)
        self.availability.record_answer(guard)
        self._on_headers(answer.headers)
        if answer.status >= 300:
            data = answer.read(decode_content=True)
            raise make_response_error("GET", path, answer.status, answer.headers, data, self.clock)
        return answer

    def dial(self, path: str, guard: Guard) -> HTTPConnection:
        """Return a new connection for a protocol other than HTTP; the caller closes it.

        Raises:
            urllib3.exceptions.HTTPError, OSError, ValueError: see `failure`.
        """
        address = urllib3.util.parse_url(self.url(path))
        pool = self._pools().connection_from_host(address.host, address.port, address.scheme)
        connection = cast("HTTPConnection", pool._new_conn())
        if pool.proxy is not None:
            connection.set_tunnel(
                scheme="https" if pool.proxy.scheme == "https" else "http",
                host=(address.host or "").strip("[]"),
                port=address.port,
                headers=pool.proxy_headers,
            )
        with guard_connections(guard), contextlib.ExitStack() as unless_connected:
            # A handshake that fails leaves the guard's socket of the connection.
            unless_connected.callback(connection.close)
            connection.connect()
            unless_connected.pop_all()
        self.availability.record_answer(guard)
        return connection

    def guard(
        self, method: str, path: str, deadline: Deadline, inactivity: float | None = None
    ) -> Guard:
        """Return the guard of the next request.

        Raises:
            ClusterEnded: the server's process has ended.
            DeadlineExceeded: the deadline has passed.
        """
        availability = self.availability
        availability.check()
        if deadline.expired:
            raise DeadlineExceeded(f"{method} {path}: not asked, the time is over")
        return Guard(deadline, inactivity, availability)

    def failure(
        self,
        method: str,
        path: str,
        guard: Guard,
        error: Exception | None,
        *,
        late: str = "no complete answer",
    ) -> ApiError | DeadlineExceeded | InvalidArgument:
        """Return and record the error of a request that ended without an answer.

        Args:
            guard: of the request.
            error: one of `TRANSPORT_ERRORS`; None if the guard cut the request off.
            late: the missing part, for the message if the deadline has passed.
        """
        if isinstance(error, InvalidArgument):
            return error
        if guard.cause is Cause.ENDED:
            return ClusterEnded(self.availability.problem, reason="ClusterEnded")
        if guard.cause is Cause.INACTIVE:
            self.availability.record_failure(guard, "Timeout")
            return ApiError(
                f"nothing came for {guard.inactivity:g}s",
                reason="WatchInactive",
                method=method,
                path=path,
            )
        if error is None or guard.cause is not None or guard.expired:
            if guard.cause is not Cause.CLOSED:
                self.availability.record_failure(guard, "Timeout")
            return DeadlineExceeded(f"{method} {path}: {late} within {format_seconds(guard.limit)}")
        if problem := self.availability.find_end():
            return ClusterEnded(problem, reason="ClusterEnded")
        failure = make_connection_error(method, path, error, self.address)
        self.availability.record_failure(guard, failure.reason)
        return failure

    def headers(self, guard: Guard) -> dict[str, str]:
        """Return the client's headers but `further_headers`, with refreshed credentials."""
        headers = {
            str(name).lower(): str(value) for name, value in self._client.default_headers.items()
        }
        if self._client.cookie:
            headers["cookie"] = str(self._client.cookie)
        configuration = self._client.configuration
        # The loader's refresh hook replaces settings in place: one thread at a time.
        if not self._credentials.acquire(timeout=min(guard.limit, threading.TIMEOUT_MAX)):
            raise TimeoutError("another request is still refreshing the credentials")
        try:
            for setting in configuration.auth_settings().values():
                if setting["in"] == "header" and setting["value"]:
                    headers[setting["key"].lower()] = str(setting["value"])
        finally:
            self._credentials.release()
        if "authorization" not in headers and configuration.username:
            headers["authorization"] = configuration.get_basic_auth_token()
        return headers

    def url(self, path: str, query: Mapping[str, Any] | None = None) -> str:
        """Return the URL of a path; parameters that are None are omitted."""
        address = self.address
        if not address.startswith(("http://", "https://")):
            raise InvalidArgument(
                "client.configuration.host", address, "the server's address, https://…"
            )
        pairs = [
            (name, str(value).lower() if isinstance(value, bool) else value)
            for name, value in (query or {}).items()
            if value is not None
        ]
        return f"{address}{path}?{urlencode(pairs, doseq=True)}" if pairs else address + path

    def close(self) -> None:
        """Close idle connections."""
        with self._lock:
            own, self._own, self._source = self._own, None, None
            self._pool = None
        if own is None:
            return
        with own.pools.lock:
            pools = [*map(own.pools.__getitem__, own.pools.keys())]
        own.clear()
        for pool in pools:
            # Otherwise its connections stay open until nothing refers to it, as a traceback does.
            pool.close()

    def _exchange(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None,
        body: bytes | None,
        content_type: str | None,
        accept: str,
        guard: Guard,
        *,
        stream: bool = False,
    ) -> urllib3.BaseHTTPResponse:
        headers = {**self.headers(guard), "accept": accept}
        if content_type is not None:
            headers["content-type"] = content_type
        else:
            headers.pop("content-type", None)
        sent: Mapping[str, str] = headers
        if self.further_headers:
            sent = urllib3.HTTPHeaderDict(headers)
            for name, value in self.further_headers:
                sent.add(name, encode_header(value))
        urlopen, target = self._find_opener(self.url(path, query))
        # Reads are limited by the guard, which is cheaper. Connecting has its own limit, so that an
        # abandoned thread ends.
        connect = min(max(guard.limit, 0.001), _LONGEST_CONNECT)
        timeout = urllib3.Timeout(connect=connect, read=None)

        def once() -> urllib3.BaseHTTPResponse:
            return urlopen(
                method,
                target,
                body=body,
                headers=sent,
                timeout=timeout,
                retries=False,
                redirect=False,
                assert_same_host=False,
                preload_content=not stream,
                decode_content=not stream,
            )

        with guard_connections(guard):
            try:
                return once()
            except HTTPError as error:
                # A server may close a kept connection just as it is reused. Sending again does not
                # retry a failed answer: the request did not arrive.
                stale = (
                    method == "GET"
                    and not guard.dialed
                    and guard.cause is None
                    and get_connection_error_reason(error) == "ConnectionReset"
                )
                if not stale:
                    raise
            return once()

    def _find_opener(self, url: str) -> tuple[Callable[..., urllib3.BaseHTTPResponse], str]:
        """Return the function that sends a request for a URL, and its target.

        A manager would parse each URL to find the one pool of the server again.
        """
        pools, address = self._pools(), self.address
        pool = self._pool
        if pool is None or pool.manager is not pools or pool.address != address:
            try:
                pool = self._pool = _ServerPool(pools, address)
            except (HTTPError, ValueError):
                return pools.urlopen, url  # whose error names the URL
        target = url[pool.origin_length :]
        # A manager also removes what is no part of a target.
        if pools.proxy is not None or target[:1] != "/" or "/." in target or "#" in target:
            return pools.urlopen, url
        return pool.urlopen, target

    def _pools(self) -> urllib3.PoolManager:
        source = getattr(getattr(self._client, "rest_client", None), "pool_manager", None)
        if not isinstance(source, urllib3.PoolManager):
            api_client = getattr(self._client, "api_client", None)
            hint = "its .api_client" if api_client is not None else "a kubernetes.client.ApiClient"
            raise InvalidArgument("client", self._client, hint)
        with self._lock:
            if self._own is None or self._source is not source:
                self._source, self._own = source, make_guarded_manager(source)
            return self._own


def format_seconds(duration: float) -> str:
    """Return a duration as text: two digits below a second, tenths above."""
    return f"{duration:.2g}s" if duration < 1 else f"{round(duration, 1):g}s"
