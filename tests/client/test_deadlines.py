from __future__ import annotations

import math
import re
import socket
import ssl
import threading
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.client import ApiClient, Configuration

from pytest_kwait.client.resource import PODS
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import SYSTEM_CLOCK, Deadline
from pytest_kwait.errors import ApiError
from pytest_kwait.testing import FakeClock
from pytest_kwait.wait import DeadlineExceeded
from tests.certificates import write_certificates
from tests.client.scripted_server import Exchange, ScriptedServer, answer, trickle_body

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_kwait.client.certificate_client import Credentials
    from pytest_kwait.simulator.authentication.pki import CertificateAuthority
    from tests.advanced_clock import AdvancedClock
    from tests.client.conftest import Authority

LIMIT = 0.15
PATH = "/api/v1/namespaces/a/pods/p"


def stall_before_headers(exchange: Exchange) -> None:
    exchange.hold()


def trickle_headers(exchange: Exchange) -> None:
    exchange.trickle(b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 60_000)


def stall_after_headers(exchange: Exchange) -> None:
    exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
    exchange.hold()


def stall_after_connection_close(exchange: Exchange) -> None:
    # http.client gives the connection up here, before the body is read.
    exchange.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{")
    exchange.hold()


def stall_in_error(exchange: Exchange) -> None:
    exchange.send(b"HTTP/1.1 500 Oops\r\nContent-Length: 100\r\n\r\n{")
    exchange.hold()


STALLS = [
    stall_before_headers,
    trickle_headers,
    stall_after_headers,
    trickle_body,
    stall_after_connection_close,
    stall_in_error,
]


def limit() -> Deadline:
    """Return a deadline whose remaining time does not depend on how fast this machine is."""
    return Deadline.after(LIMIT, FakeClock())


def ends_in_time(call: Callable[[], object], message: str) -> None:
    """Check a call that only its deadline ends, as no server answers it in ten minutes."""
    started = SYSTEM_CLOCK.monotonic()
    with pytest.raises(DeadlineExceeded, match=f"^{re.escape(message)}$"):
        call()
    assert SYSTEM_CLOCK.monotonic() - started >= LIMIT * 0.9


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("stall", STALLS, ids=lambda stall: stall.__name__)
def test_a_request_ends_at_its_deadline(
    stall: Callable[[Exchange], None], tls: bool, authority: Authority
) -> None:
    with ScriptedServer(stall, tls=authority.server if tls else None) as server:
        session = ApiSession.of(server.client(ssl_ca_cert=authority.certificate))
        deadline = limit()
        ends_in_time(
            lambda: session.get(PODS, "p", "a", deadline=deadline),
            f"GET {PATH}: no complete answer within 0.15s",
        )
        session.close()


@pytest.mark.parametrize("stall", STALLS, ids=lambda stall: stall.__name__)
def test_a_watch_ends_at_its_deadline(stall: Callable[[Exchange], None]) -> None:
    with ScriptedServer(stall) as server:
        session = ApiSession.of(server.client())
        watch = session.watch(PODS, "a", resource_version="1", deadline=limit())
        ends_in_time(
            lambda: next(watch),
            "GET /api/v1/namespaces/a/pods: the watch was not over within 0.15s",
        )


def test_a_kept_connection_is_cut_as_well(
    authority: Authority, soon: Deadline, guard_clock: AdvancedClock
) -> None:
    def stall(exchange: Exchange) -> None:
        exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
        guard_clock.advance(30)
        exchange.hold()

    with ScriptedServer(
        answer({"kind": "Pod"}), stall, answer({"kind": "Pod"}), tls=authority.server
    ) as server:
        session = ApiSession.of(server.client(ssl_ca_cert=authority.certificate))
        session.get(PODS, "p", "a", deadline=soon)
        with pytest.raises(DeadlineExceeded, match=r"no complete answer within 30s$"):
            session.get(PODS, "p", "a", deadline=Deadline.after(30, FakeClock()))
        assert server.connections == 1
        assert session.get(PODS, "p", "a", deadline=soon) == {"kind": "Pod"}
        assert server.connections == 2
        session.close()


def test_a_server_that_never_says_hello_in_tls_is_cut(authority: Authority) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, ScriptedServer(answer()) as unused:
        host = f"https://127.0.0.1:{silent.getsockname()[1]}"
        session = ApiSession.of(unused.client(host=host, ssl_ca_cert=authority.certificate))
        ends_in_time(
            lambda: session.get(PODS, "p", "a", deadline=limit()),
            f"GET {PATH}: no complete answer within 0.15s",
        )


def test_a_name_that_does_not_resolve_in_time_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    def slow(*_: object, **__: object) -> object:
        over.wait()
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    with ScriptedServer(answer()) as unused:
        session = ApiSession.of(unused.client(host="http://kwait.invalid"))
        ends_in_time(
            lambda: session.get(PODS, "p", "a", deadline=limit()),
            f"GET {PATH}: no complete answer within 0.15s",
        )
        over.set()


def test_expired_deadline_sends_no_request() -> None:
    with ScriptedServer(answer()) as server:
        session = ApiSession.of(server.client())
        with pytest.raises(DeadlineExceeded) as raised:
            session.get(PODS, "p", "a", deadline=Deadline.after(0))
        assert str(raised.value) == f"GET {PATH}: not asked, the time is over"
        assert server.requests == []


def test_no_deadline_is_no_limit() -> None:
    with ScriptedServer(answer({"kind": "Pod"})) as server:
        session = ApiSession.of(server.client())
        pod = session.get(PODS, "p", "a", deadline=Deadline(math.inf))
        assert pod == {"kind": "Pod"}
        session.close()


def test_a_user_s_own_request_over_the_same_client_has_no_limit_of_ours(soon: Deadline) -> None:
    with ScriptedServer(answer({"kind": "Pod"})) as server:
        client = server.client()
        before = dict(client.rest_client.pool_manager.pool_classes_by_scheme)
        session = ApiSession.of(client)
        session.get(PODS, "p", "a", deadline=soon)
        client.rest_client.pool_manager.request("GET", f"{server.address}/version")
        assert client.rest_client.pool_manager.pool_classes_by_scheme == before
        assert server.connections == 2
        session.close()
        client.rest_client.pool_manager.clear()


def request_version(server: ScriptedServer, credentials: Credentials, deadline: Deadline) -> None:
    """Send a request by a connection of its own."""
    configuration = Configuration()
    configuration.host = server.address
    configuration.ssl_ca_cert = str(credentials.authority)
    configuration.cert_file = str(credentials.certificate)
    configuration.key_file = str(credentials.key)
    session = ApiSession(ApiClient(configuration))
    try:
        session.request("GET", "/version", deadline=deadline)
    finally:
        session.close()


def serve_tls(authority: CertificateAuthority, credentials: Credentials) -> ScriptedServer:
    """Return a server that requires a client certificate of the authority."""
    tls = authority.tls
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_verify_locations(credentials.authority)
    return ScriptedServer(answer({"kind": "Status"}), tls=tls)


def test_certificates_are_read_once(
    tmp_path: Path, soon: Deadline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not for each connection, as every watch has its own."""
    loaded = []
    load = ssl.SSLContext.load_cert_chain

    def load_cert_chain(context: ssl.SSLContext, *args: Any, **kwargs: Any) -> None:
        loaded.append(args[0])
        load(context, *args, **kwargs)

    authority, credentials = write_certificates(tmp_path)
    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", load_cert_chain)
    with serve_tls(authority, credentials) as server:
        for _ in range(3):
            request_version(server, credentials, soon)
    assert [file for file in loaded if file == str(credentials.certificate)] == [
        str(credentials.certificate)
    ]


def test_replaced_certificates_are_read(tmp_path: Path, soon: Deadline) -> None:
    """As those of an authority that was rotated during a run."""
    with serve_tls(*write_certificates(tmp_path)) as server:
        credentials = write_certificates(tmp_path)[1]
        with pytest.raises(ApiError, match="certificate"):
            request_version(server, credentials, soon)
    authority, credentials = write_certificates(tmp_path)
    with serve_tls(authority, credentials) as server:
        request_version(server, credentials, soon)


def test_a_missing_certificate_has_the_error_of_the_client(tmp_path: Path, soon: Deadline) -> None:
    authority, credentials = write_certificates(tmp_path)
    with serve_tls(authority, credentials) as server:
        credentials.authority.unlink()
        with pytest.raises(ApiError, match="No such file or directory"):
            request_version(server, credentials, soon)
