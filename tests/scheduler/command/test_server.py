"""The server on this machine's own address, with real certificates."""

from __future__ import annotations

import json
import logging
import os
import socket
import ssl
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
import trustme

from pytest_kwait.errors import ApiError
from pytest_kwait.scheduler.command import CommandError
from pytest_kwait.scheduler.command import server as serving
from pytest_kwait.scheduler.command.delegated_auth import Authenticator, DelegatedAuthorizer
from pytest_kwait.scheduler.command.server import (
    HealthCheck,
    HTTPRequest,
    HTTPResponse,
    Routes,
    Server,
    UnhealthyError,
    make_tls_context,
    read_client_authorities,
)
from tests.scheduler.command.reviewing import Reviewer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SNIFF = {"X-Content-Type-Options": "nosniff"}


def fail() -> None:
    raise UnhealthyError("it is <ill>")


GOOD = HealthCheck("good", lambda: None)
BAD = HealthCheck("bad", fail)
HEALTH: dict[str, list[HealthCheck]] = {"healthz": [GOOD, BAD], "livez": [], "readyz": [GOOD]}


def by_token(spec: dict[str, Any]) -> dict[str, Any]:
    name = spec["token"]
    return {"authenticated": name != "stranger", "user": {"username": name}}


def by_user(spec: dict[str, Any]) -> dict[str, Any]:
    if spec["user"] == "nobody-can-say":
        raise ApiError("not for you", status=403, reason="Forbidden")
    return {"allowed": spec["user"] == "reader", "reason": "no <role>" * (spec["user"] == "why")}


ENDPOINTS = Routes(
    HEALTH,
    {"/metrics": lambda accept: ("text/x", f"as {accept}".encode())},
    Authenticator(Reviewer(by_token).session),
    DelegatedAuthorizer(Reviewer(by_user).session, ("/healthz", "/livez", "/readyz")),
)


def ask(target: str, user: str | None = "reader", method: str = "GET") -> HTTPResponse:
    headers = {"accept": "that"} | ({"authorization": f"Bearer {user}"} if user else {})
    return ENDPOINTS.answer(HTTPRequest(method, target, headers))


@pytest.mark.parametrize(
    ("target", "status", "text"),
    [
        ("/livez", 200, "ok"),
        ("/livez?verbose", 200, "[+]ping ok\nlivez check passed\n"),
        ("/livez/ping", 200, "ok"),
        ("/livez/other", 404, "404 page not found\n"),
        ("/livez/", 404, "404 page not found\n"),
        ("/readyz", 200, "ok"),
        (
            "/healthz",
            500,
            "[+]good ok\n[-]bad failed: reason withheld\nhealthz check failed\n",
        ),
        ("/healthz?exclude=bad", 200, "ok"),
        (
            "/healthz?exclude=bad&exclude=x&exclude=y&verbose=",
            200,
            "[+]good ok\n[+]bad excluded: ok\n"
            'warn: some health checks cannot be excluded: no matches for "x","y"\n'
            "healthz check passed\n",
        ),
        ("/healthz/good", 200, "ok"),
        ("/healthz/bad", 500, "internal server error: it is <ill>\n"),
        ("/metrics", 200, "as that"),
        ("/metrics?x=1", 200, "as that"),
        ("/metrics/", 404, "404 page not found\n"),
        ("/", 404, "404 page not found\n"),
        ("//metrics", 404, "404 page not found\n"),
    ],
)
def test_path_answers(target: str, status: int, text: str) -> None:
    answer = ask(target)
    assert (answer.status, answer.body.decode()) == (status, text)


def test_reason_of_a_failed_check_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        ask("/healthz")
    assert caplog.messages == ["healthz check failed: bad\n[-]bad failed: it is <ill>"]


def test_invalid_credentials_get_401() -> None:
    answer = ask("/healthz", "stranger")
    assert (answer.status, answer.content_type) == (401, "application/json")
    assert json.loads(answer.body) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "Unauthorized",
        "reason": "Unauthorized",
        "code": 401,
    }


@pytest.mark.parametrize(
    ("user", "message"),
    [
        (None, 'forbidden: User "system:anonymous" cannot get path "/metrics"'),
        ("other", 'forbidden: User "other" cannot get path "/metrics"'),
        ("<b>", 'forbidden: User "&lt;b&gt;" cannot get path "/metrics"'),
        ("why", 'forbidden: User "why" cannot get path "/metrics": no <role>'),
    ],
)
def test_unauthorized_caller_gets_403(user: str | None, message: str) -> None:
    answer = ask("/metrics", user)
    assert (answer.status, answer.content_type, answer.headers) == (403, "application/json", SNIFF)
    assert json.loads(answer.body) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": "Forbidden",
        "details": {},
        "code": 403,
    }


def test_unknown_path_gets_403_before_404() -> None:
    assert ask("/nope", None).status == 403
    assert ask("/nope").status == 404


def test_failed_review_shows_nothing() -> None:
    answer = ask("/metrics", "nobody-can-say")
    assert answer == HTTPResponse(
        500,
        b'Internal Server Error: "/metrics": 403 Forbidden: not for you\n',
        headers=SNIFF,
    )


def test_only_get_and_head_are_served() -> None:
    assert ask("/metrics", method="POST") == HTTPResponse(
        405, b"405 method not allowed\n", headers={**SNIFF, "Allow": "GET"}
    )
    assert ask("/metrics", None, "POST").status == 403
    assert ask("/livez", method="HEAD").status == 200


def test_insecure_port_has_no_authentication() -> None:
    answer = ENDPOINTS.insecure().answer(HTTPRequest("GET", "/metrics", {"accept": "x"}))
    assert (answer.status, answer.content_type, answer.body) == (200, "text/x", b"as x")


PAGES: dict[str, Any] = {"/metrics": lambda _accept: ("text/plain", b"metrics")}


def context(folder: Path | str = "", **given: Any) -> ssl.SSLContext:
    given = {"certificate": "", "key": "", "address": "127.0.0.1", "client_ca": None} | given
    return make_tls_context(folder=str(folder), **given)


def fetch(url: str, tls: ssl.SSLContext | None = None) -> tuple[int, str]:
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls)
    )
    try:
        with opener.open(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def server(tmp_path: Path, authority: trustme.CA) -> Iterator[Server]:
    endpoints = Routes(
        {"healthz": []}, PAGES, Authenticator(None), DelegatedAuthorizer(None, ("/healthz",))
    )
    tls = context(tmp_path, client_ca=authority.cert_pem.bytes().decode())
    server = Server("127.0.0.1", 0, endpoints, tls)
    server.start()
    yield server
    server.stop()


def trusting(folder: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(folder / "kube-scheduler.crt"))


def test_saved_certificate_can_be_trusted(server: Server, tmp_path: Path) -> None:
    url = f"https://127.0.0.1:{server.port}"
    assert fetch(f"{url}/healthz", trusting(tmp_path)) == (200, "ok")
    assert fetch(f"{url}/metrics", trusting(tmp_path))[0] == 403
    assert fetch(f"https://localhost:{server.port}/healthz", trusting(tmp_path))[0] == 200


def test_client_certificate_authenticates(
    server: Server, tmp_path: Path, authority: trustme.CA
) -> None:
    tls = trusting(tmp_path)
    client = authority.issue_cert(common_name="ann", organization_name="system:masters")
    client.configure_cert(tls)
    assert fetch(f"https://127.0.0.1:{server.port}/metrics", tls) == (200, "metrics")


def test_untrusted_client_certificate_is_rejected(server: Server, tmp_path: Path) -> None:
    tls = trusting(tmp_path)
    client = trustme.CA().issue_cert(common_name="ann", organization_name="system:masters")
    client.configure_cert(tls)
    with pytest.raises(OSError, match=r"(?i)unknown|reset|closed|broken|eof"):
        fetch(f"https://127.0.0.1:{server.port}/metrics", tls)


def test_silent_clients_do_not_block_others(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "_READ_TIMEOUT", 3600.0)
    silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(20)]
    try:
        assert fetch(f"https://127.0.0.1:{server.port}/healthz", trusting(tmp_path))[0] == 200
        server.stop()
    finally:
        for connection in silent:
            connection.close()


def test_client_without_handshake_is_dropped(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "_READ_TIMEOUT", 0.05)
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as silent:
        assert silent.recv(1) == b""


def test_connection_is_kept_alive(server: Server, tmp_path: Path) -> None:
    with (
        socket.create_connection(("127.0.0.1", server.port), timeout=10) as plain,
        trusting(tmp_path).wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        for _ in range(3):
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = connection.recv(4096)
            assert answer.startswith(b"HTTP/1.1 200 OK\r\nServer: kwait-scheduler")
            assert answer.endswith(b"\r\nContent-Length: 2\r\n\r\nok")
        connection.sendall(b"HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(4096).endswith(b"\r\nContent-Length: 2\r\n\r\n")
        connection.sendall(b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc")
        answer = connection.recv(4096)
        assert answer.startswith(b"HTTP/1.1 405 Method Not Allowed\r\n")
        assert b"\r\nConnection: close\r\n" in answer


def test_plain_http_is_served() -> None:
    server = Server("127.0.0.1", 0, Routes({"healthz": []}, PAGES), None)
    server.start()
    try:
        assert fetch(f"http://127.0.0.1:{server.port}/metrics") == (200, "metrics")
    finally:
        server.stop()


def test_all_addresses_of_both_families_are_served() -> None:
    server = Server("0.0.0.0", 0, Routes({"healthz": []}, {}), None)
    server.start()
    try:
        assert fetch(f"http://127.0.0.1:{server.port}/healthz")[0] == 200
        if socket.has_dualstack_ipv6():
            assert fetch(f"http://[::1]:{server.port}/healthz")[0] == 200
    finally:
        server.stop()


def test_port_can_be_shared() -> None:
    endpoints = Routes({"healthz": []}, PAGES)
    first = Server("127.0.0.1", 0, endpoints, None, share_port=True)
    second = Server("127.0.0.1", first.port, endpoints, None, share_port=True)
    assert second.port == first.port
    first.stop()
    second.stop()


def test_tls_versions_and_cipher_suites_are_limited(tmp_path: Path) -> None:
    assert context(tmp_path).minimum_version is ssl.TLSVersion.TLSv1_2
    least = context(tmp_path, min_version="VersionTLS13")
    assert least.minimum_version is ssl.TLSVersion.TLSv1_3
    suites = ["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256"]
    limited = context(tmp_path, cipher_suites=suites)
    older = [each["name"] for each in limited.get_ciphers() if each["protocol"] != "TLSv1.3"]
    assert older == ["ECDHE-ECDSA-AES256-GCM-SHA384"]
    newest = context(tmp_path, cipher_suites=suites[1:])
    assert newest.minimum_version is ssl.TLSVersion.TLSv1_3


def test_port_in_use_is_named() -> None:
    taken = Server("127.0.0.1", 0, Routes({}, {}), None)
    try:
        with pytest.raises(CommandError) as caught:
            Server("127.0.0.1", taken.port, Routes({}, {}), None)
    finally:
        taken.stop()
    assert str(caught.value) == (
        f"failed to create listener: failed to listen on 127.0.0.1:{taken.port}:"
        f" listen tcp 127.0.0.1:{taken.port}: bind: address already in use"
    )


def test_certificate_is_generated_once(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    mask = os.umask(0o022)
    try:
        context(folder)
    finally:
        os.umask(mask)
    pair = [folder / "kube-scheduler.crt", folder / "kube-scheduler.key"]
    before = [path.read_bytes() for path in pair]
    context(folder)
    assert [path.read_bytes() for path in pair] == before
    assert [oct(path.stat().st_mode & 0o777) for path in pair] == ["0o644", "0o600"]


def test_half_a_pair_is_refused(tmp_path: Path) -> None:
    context(tmp_path)
    (tmp_path / "kube-scheduler.key").unlink()
    with pytest.raises(CommandError) as caught:
        context(tmp_path)
    assert str(caught.value) == (
        f"error reading {tmp_path}/kube-scheduler.key,"
        " certificate and key must be supplied as a pair"
    )


def test_mismatched_certificate_and_key_are_refused(tmp_path: Path) -> None:
    context(tmp_path / "a")
    context(tmp_path / "b")
    certificate, key = tmp_path / "a/kube-scheduler.crt", tmp_path / "b/kube-scheduler.key"
    with pytest.raises(CommandError) as caught:
        context(certificate=str(certificate), key=str(key))
    assert str(caught.value) == (
        f"unable to load server certificate {certificate}, {key}:"
        " they are not a certificate and its key"
    )
    with pytest.raises(CommandError) as caught:
        context(certificate=str(tmp_path / "none"), key=str(key))
    assert str(caught.value) == (
        f"unable to load server certificate {tmp_path}/none, {key}: No such file or directory"
    )


def test_unwritable_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CommandError) as caught:
        context(tmp_path / "file")
    assert str(caught.value) == f"open {tmp_path}/file/kube-scheduler.crt: File exists"


def test_invalid_client_authorities_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "ca.crt"
    with pytest.raises(CommandError) as caught:
        read_client_authorities(str(file))
    assert str(caught.value) == (
        f"unable to load client CA provider: open {file}: No such file or directory"
    )
    file.write_text("nothing")
    with pytest.raises(CommandError) as caught:
        read_client_authorities(str(file))
    assert str(caught.value) == f"unable to load client CA provider: {file} has no certificates"
    with pytest.raises(CommandError, match=r"^unable to load client CA provider: "):
        context(client_ca="-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n")
