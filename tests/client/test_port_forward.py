from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.client.session import ApiSession
from pytest_kwait.client.websocket import V4
from pytest_kwait.clock import Deadline
from pytest_kwait.errors import ApiError
from pytest_kwait.testing import FakeClock
from tests.client.scripted_server import Exchange, ScriptedServer, answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.advanced_clock import AdvancedClock
    from tests.client.conftest import Authority

PATH = "/api/v1/namespaces/a/pods/p/portforward"
RUNNING = answer({"status": {"phase": "Running"}})
PORT = (8080).to_bytes(2, "little")


def greet(exchange: Exchange) -> None:
    exchange.upgrade(V4)
    exchange.send_message(0, PORT)
    exchange.send_message(1, PORT)


def echo(exchange: Exchange) -> None:
    """Echo one line, then end the connection."""
    greet(exchange)
    line = b""
    while not line.endswith(b"\n"):
        message = exchange.receive_message()
        assert message[0] == 0
        line += message[1:]
        exchange.send_message(0, message[1:])
    exchange.send_close()


def everything(connected: socket.socket) -> bytes:
    data = b""
    while piece := connected.recv(65536):
        data += piece
    return data


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_each_local_connection_becomes_one_to_the_pod(
    tls: bool, authority: Authority, soon: Deadline
) -> None:
    with ScriptedServer(RUNNING, echo, tls=authority.server if tls else None) as server:
        session = ApiSession.of(server.client(ssl_ca_cert=authority.certificate))
        with session.port_forward("a", "p", 8080, deadline=soon) as forward:
            assert forward.address == ("127.0.0.1", forward.port)
            assert forward.local_port == forward.port
            for text in (b"one\n", b"x" * 50_000 + b"\n"):
                with socket.create_connection(forward.address, 60) as local:
                    local.sendall(text)
                    assert everything(local) == text
        assert forward.errors == []
        first, *others = server.requests
        assert first.path == "/api/v1/namespaces/a/pods/p"
        assert [request.target for request in others] == [f"{PATH}?ports=8080"] * 2
        assert others[0].headers["sec-websocket-protocol"] == V4
        session.close()


def test_a_forward_lasts_for_as_long_as_it_is_wanted() -> None:
    with ScriptedServer(RUNNING, echo) as server:
        session = ApiSession.of(server.client())
        with (
            session.port_forward("a", "p", 8080, deadline=Deadline.after(None)) as forward,
            socket.create_connection(forward.address, 60) as local,
        ):
            local.sendall(b"one\n")
            assert everything(local) == b"one\n"
        session.close()


def test_a_client_that_has_said_everything_still_gets_its_answer(soon: Deadline) -> None:
    def handle(exchange: Exchange) -> None:
        greet(exchange)
        assert exchange.receive_message() == b"\x00ask"
        exchange.pause(0.1)
        exchange.send_message(0, b"told")
        exchange.send_close()

    with ScriptedServer(RUNNING, handle) as server:
        session = ApiSession.of(server.client())
        with (
            session.port_forward("a", "p", 8080, deadline=soon) as forward,
            socket.create_connection(forward.address, 60) as local,
        ):
            local.sendall(b"ask")
            local.shutdown(socket.SHUT_WR)
            assert everything(local) == b"told"
        session.close()


def refuse(exchange: Exchange) -> None:
    greet(exchange)
    exchange.send_message(1, b"dial tcp 127.0.0.1:8080: connection refused")
    exchange.hold()


@pytest.mark.parametrize(
    ("handle", "message"),
    [
        (refuse, f"GET {PATH}: PortForwardFailed: dial tcp 127.0.0.1:8080: connection refused"),
        (
            answer({"kind": "Status", "message": "no", "reason": "Forbidden"}, 403),
            f"GET {PATH}: 403 Forbidden: no",
        ),
    ],
    ids=["nothing listens", "forbidden"],
)
def test_refused_connections_are_kept_as_errors(
    handle: Callable[[Exchange], None], message: str, soon: Deadline
) -> None:
    with ScriptedServer(RUNNING, handle) as server:
        session = ApiSession.of(server.client())
        with (
            session.port_forward("a", "p", 8080, deadline=soon) as forward,
            socket.create_connection(forward.address, 60) as local,
        ):
            assert everything(local) == b""
            assert forward.errors == [message]
        session.close()


def hold(exchange: Exchange) -> None:
    greet(exchange)
    exchange.send_message(0, b"hello")
    exchange.hold()


def test_closing_cuts_what_is_open(soon: Deadline) -> None:
    with ScriptedServer(RUNNING, hold) as server:
        session = ApiSession.of(server.client())
        forward = session.port_forward("a", "p", 8080, deadline=soon)
        with socket.create_connection(forward.address, 60) as local:
            assert local.recv(5) == b"hello"
            closer = threading.Thread(target=forward.close)
            closer.start()
            assert everything(local) == b""
            closer.join(60)
            assert not closer.is_alive()
        forward.close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(forward.address)
        assert forward.errors == []
        session.close()


def test_the_deadline_cuts_what_is_open(soon: Deadline, guard_clock: AdvancedClock) -> None:
    with ScriptedServer(RUNNING, hold) as server:
        session = ApiSession.of(server.client())
        with (
            session.port_forward("a", "p", 8080, deadline=soon) as forward,
            socket.create_connection(forward.address, 60) as local,
        ):
            assert local.recv(5) == b"hello"
            guard_clock.advance(60)
            assert everything(local) == b""
        (message,) = forward.errors
        assert message.startswith(f"GET {PATH}: no complete answer within ")
        session.close()


def test_a_pod_that_does_not_run_is_refused(soon: Deadline) -> None:
    with ScriptedServer(answer({"status": {"phase": "Pending"}})) as server:
        session = ApiSession.of(server.client())
        with pytest.raises(ApiError) as raised:
            session.port_forward("a", "p", 8080, deadline=soon)
        assert str(raised.value) == (
            f"GET {PATH}: PodNotRunning: "
            "port 8080 cannot be forwarded to a pod that is Pending, only to one that runs"
        )
        session.close()


def test_a_local_port_of_one_s_own(soon: Deadline) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, ScriptedServer(RUNNING) as server:
        port = taken.getsockname()[1]
        session = ApiSession.of(server.client())
        with pytest.raises(OSError, match="in use"):
            session.port_forward("a", "p", 8080, local_port=port, deadline=soon)
        taken.close()
        with session.port_forward("a", "p", 8080, local_port=port, deadline=soon) as forward:
            assert forward.port == port
        session.close()


def test_a_deadline_of_another_clock_is_taken_as_seconds_from_now(soon: Deadline) -> None:
    with ScriptedServer(RUNNING, echo) as server:
        session = ApiSession.of(server.client())
        fake = Deadline.after(60, FakeClock(start=1e6))
        with (
            session.port_forward("a", "p", 8080, deadline=fake) as forward,
            socket.create_connection(forward.address, 60) as local,
        ):
            local.sendall(b"x\n")
            assert everything(local) == b"x\n"
        session.close()


def say_nothing(exchange: Exchange) -> None:
    greet(exchange)
    exchange.hold()


def end_after_the_greeting(exchange: Exchange) -> None:
    greet(exchange)
    exchange.send_close()


def end_at_once(exchange: Exchange) -> None:
    exchange.upgrade(V4)
    exchange.send_close()


@pytest.mark.parametrize(
    ("handle", "refusal"),
    [
        (hold, ""),
        (say_nothing, ""),
        (end_after_the_greeting, ""),
        (refuse, "dial tcp 127.0.0.1:8080: connection refused"),
        (end_at_once, "the connection ended before it was made"),
    ],
    ids=["a server that speaks", "a silent one", "one that closes", "none", "no kubelet"],
)
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_a_port_is_probed_without_a_byte(
    handle: Callable[[Exchange], None],
    refusal: str,
    tls: bool,
    authority: Authority,
    soon: Deadline,
) -> None:
    # Only a server that says nothing is given a moment.
    quiet = 0.01 if handle is say_nothing else 60.0
    with ScriptedServer(handle, tls=authority.server if tls else None) as server:
        session = ApiSession.of(server.client(ssl_ca_cert=authority.certificate))
        assert session.probe_port("a", "p", 8080, quiet=quiet, deadline=soon) == refusal
        (request,) = server.requests
        assert request.target == f"{PATH}?ports=8080"
        session.close()


def test_a_probe_that_the_server_refuses(soon: Deadline) -> None:
    refused = answer({"kind": "Status", "message": "no", "reason": "Forbidden"}, 403)
    with ScriptedServer(refused) as server:
        session = ApiSession.of(server.client())
        with pytest.raises(ApiError, match="403 Forbidden: no"):
            session.probe_port("a", "p", 8080, deadline=soon)
        session.close()
