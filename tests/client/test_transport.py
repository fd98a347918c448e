from __future__ import annotations

import base64
import errno
import gc
import socket
import struct
import threading
import warnings
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.client import ApiClient, Configuration, CoreV1Api

from pytest_kwait.client.deadlines import Guard, make_guarded_manager
from pytest_kwait.client.resource import PODS
from pytest_kwait.client.session import ApiSession
from pytest_kwait.errors import ApiError, InvalidArgument
from tests.client.scripted_server import Exchange, ScriptedServer, answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.clock import Deadline
    from tests.client.conftest import Authority

POD = {"kind": "Pod"}
PATH = "/api/v1/namespaces/a/pods/p"


def headers_sent(server: ScriptedServer, client: ApiClient, deadline: Deadline) -> dict[str, str]:
    session = ApiSession(client)
    session.get(PODS, "p", "a", deadline=deadline)
    session.close()
    return server.requests[-1].headers


def test_headers_are_the_client_s_own(soon: Deadline) -> None:
    with ScriptedServer(answer(POD)) as server:
        client = server.client()
        client.configuration.api_key["BearerToken"] = "Bearer secret"
        client.user_agent = "suite/1"
        client.default_headers["X-Team"] = "blue"
        client.default_headers["Content-Type"] = "text/plain"
        client.cookie = "a=b"
        headers = headers_sent(server, client, soon)
    assert headers == {
        "host": f"127.0.0.1:{server.port}",
        "accept": "application/json",
        "accept-encoding": "identity",
        "authorization": "Bearer secret",
        "cookie": "a=b",
        "user-agent": "suite/1",
        "x-team": "blue",
    }


def test_the_token_is_refreshed_before_each_request(soon: Deadline) -> None:
    tokens = iter(["one", "two"])

    def refresh(configuration: Configuration) -> None:
        configuration.api_key["BearerToken"] = f"Bearer {next(tokens)}"

    with ScriptedServer(answer(POD)) as server:
        client = server.client(refresh_api_key_hook=refresh)
        client.configuration.api_key["BearerToken"] = "Bearer old"
        session = ApiSession.of(client)
        for _ in range(2):
            session.get(PODS, "p", "a", deadline=soon)
        session.close()
    sent = [exchange.headers["authorization"] for exchange in server.requests]
    assert sent == ["Bearer one", "Bearer two"]


def test_the_older_name_of_the_token_is_known(soon: Deadline) -> None:
    with ScriptedServer(answer(POD)) as server:
        client = server.client()
        client.configuration.api_key["authorization"] = "Bearer secret"
        assert headers_sent(server, client, soon)["authorization"] == "Bearer secret"


def test_a_user_name_becomes_basic_authentication(soon: Deadline) -> None:
    with ScriptedServer(answer(POD)) as server:
        client = server.client(username="me", password="secret")
        sent = headers_sent(server, client, soon)["authorization"]
    assert sent == "Basic " + base64.b64encode(b"me:secret").decode()


def test_a_header_that_cannot_be_sent_is_an_error_of_the_request(soon: Deadline) -> None:
    with ScriptedServer(answer(POD)) as server:
        client = server.client()
        client.configuration.api_key["BearerToken"] = "Bearer two\nlines"
        with pytest.raises(ApiError) as raised:
            ApiSession.of(client).get(PODS, "p", "a", deadline=soon)
        assert str(raised.value) == (
            f"GET {PATH}: ConnectionFailed: {server.address}: "
            "Invalid header value b'Bearer two\\nlines'"
        )


def test_a_client_without_a_server_is_refused(soon: Deadline) -> None:
    configuration = Configuration()
    configuration.host = ""
    with pytest.raises(InvalidArgument) as raised:
        ApiSession.of(ApiClient(configuration)).get(PODS, "p", "a", deadline=soon)
    assert str(raised.value) == (
        "client.configuration.host='' is not valid: the server's address, https://…"
    )


class Named:
    def __repr__(self) -> str:
        return "<it>"


def test_only_a_synchronous_client_will_do() -> None:
    wrong: Any = Named()
    with pytest.raises(InvalidArgument) as raised:
        ApiSession.of(wrong)
    assert str(raised.value) == "client=<it> is not valid: a kubernetes.client.ApiClient"


def test_an_api_group_instead_of_its_client_gets_a_hint() -> None:
    wrong: Any = CoreV1Api(ApiClient(Configuration()))
    with pytest.raises(InvalidArgument, match=r"is not valid: its \.api_client$"):
        ApiSession.of(wrong)


def test_a_client_has_one_session() -> None:
    client = ApiClient(Configuration())
    assert ApiSession.of(client) is ApiSession.of(client)
    assert ApiSession.of(client) is not ApiSession.of(ApiClient(Configuration()))


def test_a_client_that_got_other_settings_gets_other_connections(soon: Deadline) -> None:
    with ScriptedServer(answer(POD)) as server:
        client = server.client()
        session = ApiSession.of(client)
        session.get(PODS, "p", "a", deadline=soon)
        own = session.transport._pools()
        client.rest_client = server.client().rest_client
        assert session.transport._pools() is not own
        own.clear()


@pytest.mark.parametrize(
    ("root", "path", "target"),
    [
        ("", "/version", "/version"),
        ("/", "/version", "/version"),
        ("/k8s/c-1", "/version", "/k8s/c-1/version"),
        ("", "/a b?x=%2f", "/a%20b?x=%2F"),
        ("/k8s", "/a/../b#c", "/k8s/b"),
    ],
)
def test_targets_are_encoded_and_below_the_path_of_the_server(
    soon: Deadline, root: str, path: str, target: str
) -> None:
    with ScriptedServer(answer(POD)) as server:
        client = server.client()
        client.configuration.host += root
        session = ApiSession(client)
        for _ in range(2):
            session.request("GET", path, deadline=soon)
        session.close()
    assert [exchange.target for exchange in server.requests] == [target] * 2


def test_an_address_that_changes_is_followed(soon: Deadline) -> None:
    with ScriptedServer(answer(POD)) as first, ScriptedServer(answer(POD)) as second:
        client = first.client()
        session = ApiSession(client)
        session.get(PODS, "p", "a", deadline=soon)
        client.configuration.host = second.address
        session.get(PODS, "p", "a", deadline=soon)
        session.close()
    assert [len(server.requests) for server in (first, second)] == [1, 1]


def test_a_malformed_address_is_named(soon: Deadline) -> None:
    with ScriptedServer(answer(POD)) as server:
        client = server.client()
        client.configuration.host = "https://127.0.0.1:port"
        with pytest.raises(ApiError) as raised:
            ApiSession(client).get(PODS, "p", "a", deadline=soon)
    place = f"GET {PATH}: ConnectionFailed: https://127.0.0.1:port: Failed to parse: "
    assert str(raised.value).startswith(place)


def test_a_server_that_refuses_is_named(soon: Deadline) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    configuration = Configuration()
    configuration.host = f"http://127.0.0.1:{port}"
    with pytest.raises(ApiError) as raised:
        ApiSession.of(ApiClient(configuration)).get(PODS, "p", "a", deadline=soon)
    assert raised.value.status == 0
    assert str(raised.value) == (
        f"GET {PATH}: ConnectionRefused: http://127.0.0.1:{port}: "
        f"[Errno {errno.ECONNREFUSED}] Connection refused"
    )


def test_a_name_that_is_unknown_is_a_dns_error(
    soon: Deadline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: object, **__: object) -> object:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    configuration = Configuration()
    configuration.host = "http://kwait.invalid"
    with pytest.raises(ApiError) as raised:
        ApiSession.of(ApiClient(configuration)).get(PODS, "p", "a", deadline=soon)
    assert str(raised.value) == (
        f"GET {PATH}: DNS: http://kwait.invalid: "
        f"[Errno {socket.EAI_NONAME}] Name or service not known"
    )


def test_a_certificate_that_is_not_trusted_is_a_tls_error(
    authority: Authority, soon: Deadline
) -> None:
    with ScriptedServer(answer(POD), tls=authority.server) as server:
        with pytest.raises(ApiError) as raised:
            ApiSession.of(server.client()).get(PODS, "p", "a", deadline=soon)
        assert (raised.value.status, raised.value.reason) == (0, "TLS")
        assert str(raised.value).startswith(
            f"GET {PATH}: TLS: {server.address}: [SSL: CERTIFICATE_VERIFY_FAILED]"
        )


def hang_up(exchange: Exchange) -> None:
    exchange.close()


def test_a_connection_closed_while_idle_is_not_the_reader_s_trouble(soon: Deadline) -> None:
    with ScriptedServer(answer(POD), hang_up, answer(POD)) as server:
        session = ApiSession.of(server.client())
        session.get(PODS, "p", "a", deadline=soon)
        assert session.get(PODS, "p", "a", deadline=soon) == POD
        assert server.connections == 2
        session.close()


def test_a_write_is_never_sent_twice(soon: Deadline) -> None:
    with ScriptedServer(answer(POD), hang_up, answer(POD)) as server:
        session = ApiSession.of(server.client())
        session.get(PODS, "p", "a", deadline=soon)
        with pytest.raises(ApiError) as raised:
            session.create(PODS, {}, "a", deadline=soon)
        assert str(raised.value) == (
            f"POST /api/v1/namespaces/a/pods: ConnectionReset: {server.address}: "
            "Remote end closed connection without response"
        )
        assert len(server.requests) == 2
        session.close()


def test_a_fresh_connection_that_breaks_is_not_tried_again(soon: Deadline) -> None:
    with ScriptedServer(hang_up) as server:
        with pytest.raises(ApiError, match="ConnectionReset"):
            ApiSession.of(server.client()).get(PODS, "p", "a", deadline=soon)
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    "send",
    [
        lambda session, soon: session.get(PODS, "a", "ns", deadline=soon),
        lambda session, soon: session.probe_port("ns", "a", 80, deadline=soon),
    ],
    ids=["request", "websocket"],
)
def test_a_connection_reset_before_the_handshake_leaves_no_socket(
    authority: Authority,
    soon: Deadline,
    monkeypatch: pytest.MonkeyPatch,
    send: Callable[[ApiSession, Deadline], object],
) -> None:
    """A server that is killed resets what it has not accepted yet."""
    listening = socket.create_server(("127.0.0.1", 0))
    dial = Guard.dial

    def dial_and_be_reset(*args: Any) -> socket.socket:
        connected = dial(*args)
        accepted, _ = listening.accept()
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        accepted.close()
        return connected

    monkeypatch.setattr(Guard, "dial", dial_and_be_reset)
    configuration = Configuration()
    configuration.host = f"https://127.0.0.1:{listening.getsockname()[1]}"
    configuration.ssl_ca_cert = authority.certificate
    with listening, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        session = ApiSession(ApiClient(configuration))
        with pytest.raises(ApiError) as caught:
            send(session, soon)
        assert caught.value.reason == "ConnectionReset"
        del caught
        gc.collect()
    assert [str(each.message) for each in told] == []


def test_the_client_s_retries_are_off(soon: Deadline) -> None:
    with ScriptedServer(answer({}, 429, Retry_After="7"), answer(POD)) as server:
        session = ApiSession.of(server.client(retries=5))
        with pytest.raises(ApiError) as raised:
            session.get(PODS, "p", "a", deadline=soon)
        assert (raised.value.status, raised.value.retry_after) == (429, 7.0)
        assert len(server.requests) == 1
        session.close()


def test_a_redirect_is_not_followed(soon: Deadline) -> None:
    with ScriptedServer(answer(b"", 302, Location="/login")) as server:
        session = ApiSession.of(server.client())
        with pytest.raises(ApiError) as raised:
            session.get(PODS, "p", "a", deadline=soon)
        assert str(raised.value) == f"GET {PATH}: 302: Found"
        session.close()


def test_a_shorter_body_than_announced_is_a_connection_reset(soon: Deadline) -> None:
    def handle(exchange: Exchange) -> None:
        exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}")
        exchange.close()

    with ScriptedServer(handle) as server:
        with pytest.raises(ApiError) as raised:
            ApiSession.of(server.client()).get(PODS, "p", "a", deadline=soon)
        assert (raised.value.status, raised.value.reason) == (0, "ConnectionReset")


def test_plain_requests_go_through_a_proxy(soon: Deadline) -> None:
    with ScriptedServer(answer(POD)) as proxy:
        configuration = Configuration()
        configuration.host = "http://cluster.invalid:8080"
        configuration.proxy = proxy.address
        session = ApiSession.of(ApiClient(configuration))
        assert session.get(PODS, "p", "a", deadline=soon) == POD
        assert proxy.requests[0].target == f"http://cluster.invalid:8080{PATH}"
        session.close()


def test_a_proxy_tunnels_tls_and_is_cut_like_a_server(authority: Authority, soon: Deadline) -> None:
    with ScriptedServer(answer(POD), tls=authority.server) as server:

        def tunnel(exchange: Exchange) -> None:
            with socket.create_connection(("127.0.0.1", server.port)) as onward:
                exchange.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
                back = threading.Thread(target=exchange.relay, args=(onward,))
                back.start()
                while data := onward.recv(65536):
                    exchange.send(data)
                back.join()
            exchange.close()

        with ScriptedServer(tunnel) as proxy:
            client = server.client(ssl_ca_cert=authority.certificate)
            configuration = client.configuration
            configuration.proxy = proxy.address
            session = ApiSession.of(ApiClient(configuration))
            assert session.get(PODS, "p", "a", deadline=soon) == POD
            assert proxy.requests[0].method == "CONNECT"
            assert proxy.requests[0].target == f"127.0.0.1:{server.port}"
            session.close()


def test_a_proxy_that_refuses_is_a_proxy_error(authority: Authority, soon: Deadline) -> None:
    with ScriptedServer(answer(b"", 407)) as proxy:
        configuration = Configuration()
        configuration.host = "https://cluster.invalid"
        configuration.proxy = proxy.address
        with pytest.raises(ApiError) as raised:
            ApiSession.of(ApiClient(configuration)).get(PODS, "p", "a", deadline=soon)
        assert (raised.value.status, raised.value.reason) == (0, "Proxy")
        assert str(raised.value) == (
            f"GET {PATH}: Proxy: https://cluster.invalid: Tunnel connection failed: 407 Whatever"
        )


def test_pool_settings_are_taken_over_whatever_they_are() -> None:
    client = ApiClient(Configuration())
    client.rest_client.pool_manager.connection_pool_kw["ca_certs"] = "somewhere"
    own = make_guarded_manager(client.rest_client.pool_manager)
    assert own.connection_pool_kw["ca_certs"] == "somewhere"
    assert own.pools is not client.rest_client.pool_manager.pools


def test_threads_share_a_session(soon: Deadline) -> None:
    with ScriptedServer(answer(POD)) as server:
        session = ApiSession.of(server.client())
        seen: list[object] = []

        def ask() -> None:
            seen.extend(session.get(PODS, "p", "a", deadline=soon) for _ in range(5))

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert seen == [POD] * 40
        session.close()


def test_idle_connections_are_closed_whatever_still_refers_to_them(soon: Deadline) -> None:
    closed = threading.Event()

    def refuse(exchange: Exchange) -> None:
        exchange.answer(status=404)
        exchange.hold()
        closed.set()

    with ScriptedServer(refuse) as server:
        session = ApiSession(server.client())
        with pytest.raises(ApiError) as caught:
            session.get(PODS, "p", "a", deadline=soon)
        session.close()
        assert closed.wait(60)
    # The traceback of the error has frames of the request.
    assert caught.value.__traceback__ is not None
