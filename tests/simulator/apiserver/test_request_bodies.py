"""Malformed, oversized and missing requests."""

from __future__ import annotations

import json
import select
import socket
import ssl
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.simulator.authentication.pki import CertificateAuthority
from tests.simulator.apiserver.conftest import ADMIN, Served

if TYPE_CHECKING:
    from collections.abc import Iterator

MAPS = "/api/v1/namespaces/default/configmaps"
HEAD = f"Host: x\r\nAuthorization: Bearer {ADMIN}\r\n"
UNRECOGNIZED = (
    "the object provided is unrecognized (must be of type ConfigMap): "
    "couldn't get version/kind; json parse error: "
)


def connect(served: Served) -> socket.socket:
    return socket.create_connection(("127.0.0.1", served.port), timeout=30.0)


def rest(client: socket.socket) -> bytes:
    said = b""
    while part := client.recv(65536):
        said += part
    return said


def said_to(served: Served, data: bytes) -> bytes:
    with connect(served) as client:
        client.sendall(data)
        return rest(client)


def refused(status: str) -> bytes:
    return (
        f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Connection: close\r\n\r\n{status}".encode()
    )


@pytest.fixture
def encrypted() -> Iterator[Served]:
    served = Served(tls=CertificateAuthority("127.0.0.1").tls)
    try:
        yield served
    finally:
        served.close()


@pytest.fixture
def impatient() -> Iterator[Served]:
    served = Served(header_seconds=10)
    try:
        yield served
    finally:
        served.close()


@pytest.mark.parametrize(
    "data",
    [
        b"hello there\r\n\r\n",
        bytes(range(256)) + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nNo colon\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
    ],
)
def test_malformed_http_is_rejected_and_disconnected(served: Served, data: bytes) -> None:
    assert said_to(served, data) == refused("400 Bad Request")
    assert served.send("GET", "/healthz").status == 200


@pytest.mark.parametrize(
    ("line", "status", "text"),
    [
        ("GET / HTTP/1.1\r\nHost: a b", 400, "400 Bad Request: malformed Host header"),
        ("GET /%zz HTTP/1.1\r\nHost: x", 400, "400 Bad Request"),
        (
            "GET / HTTP/2.0\r\nHost: x",
            505,
            "505 HTTP Version Not Supported: unsupported protocol version",
        ),
    ],
)
def test_invalid_request_lines_and_headers_are_answered(
    served: Served, line: str, status: int, text: str
) -> None:
    head, _, body = said_to(served, f"{line}\r\n\r\n".encode()).partition(b"\r\n\r\n")
    assert head.split()[1] == str(status).encode()
    assert body == text.encode()


@pytest.mark.parametrize("count", [1, 30])
def test_request_head_is_limited_to_a_megabyte(served: Served, count: int) -> None:
    size = 1_200_000 // count
    many = b"".join(b"X-%d: %b\r\n" % (at, b"a" * size) for at in range(count))
    with connect(served) as client:
        try:
            client.sendall(b"GET /healthz HTTP/1.1\r\n" + many)
            said = rest(client)
        except ConnectionError:  # The server closed the connection early.
            said = b""
    assert said in (refused("431 Request Header Fields Too Large"), b"")
    assert served.send("GET", "/healthz").status == 200


def test_request_head_of_a_hundred_kilobytes_is_accepted(served: Served) -> None:
    assert served.send("GET", "/healthz", X_A="a" * 100_000).status == 200


def test_slow_request_head_is_disconnected(impatient: Served) -> None:
    with connect(impatient) as never, connect(impatient) as slow, connect(impatient) as again:
        slow.sendall(b"GET /healthz HT")
        again.sendall(f"GET /healthz HTTP/1.1\r\n{HEAD}\r\n".encode())
        assert again.recv(65536).endswith(b"ok")
        again.sendall(b"GET /heal")
        impatient.advance(10)
        assert rest(never) == b""
        assert rest(slow) == b""
        assert rest(again) == b""


def test_idle_connection_stays_open_between_requests(impatient: Served) -> None:
    with connect(impatient) as client:
        for _ in range(2):
            client.sendall(f"GET /healthz HTTP/1.1\r\n{HEAD}\r\n".encode())
            assert client.recv(65536).endswith(b"ok")
            impatient.advance(20)


def test_plain_http_on_the_tls_port_is_answered(encrypted: Served) -> None:
    said = said_to(encrypted, b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
    assert said == (
        b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
    )


def test_malformed_tls_is_disconnected(encrypted: Served) -> None:
    assert said_to(encrypted, b"\0\1garbage\r\n\r\n") in (b"", b"\x15\x03\x01\0\x02\x02F")
    context = ssl.create_default_context()
    with connect(encrypted) as client, pytest.raises(ssl.SSLCertVerificationError):
        context.wrap_socket(client, server_hostname="127.0.0.1")
    context = ssl._create_unverified_context()
    with context.wrap_socket(connect(encrypted)) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert rest(client).endswith(b"\r\n\r\nok")


def test_silent_connections_block_no_others(encrypted: Served) -> None:
    silent = [connect(encrypted) for _ in range(300)]
    try:
        context = ssl._create_unverified_context()
        with context.wrap_socket(connect(encrypted)) as client:
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert rest(client).endswith(b"\r\n\r\nok")
    finally:
        for one in silent:
            one.close()


TOO_LARGE = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "Request entity too large: limit is 3145728",
    "reason": "RequestEntityTooLarge",
    "code": 413,
}


@pytest.mark.parametrize("chunked", [False, True])
def test_request_body_is_limited_to_three_megabytes(served: Served, chunked: bool) -> None:
    head = f"POST {MAPS} HTTP/1.1\r\n{HEAD}Connection: close\r\n"
    if chunked:
        chunk = b"%x\r\n%b\r\n" % (100_000, b" " * 100_000)
        data = f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunk * 32
        data += b"0\r\n\r\n"
    else:
        data = f"{head}Content-Length: 400000000\r\n\r\n".encode()
    with connect(served) as client:
        client.sendall(data)
        answer = client.recv(65536)
    assert json.loads(answer.partition(b"\r\n\r\n")[2]) == TOO_LARGE


def test_a_chunked_body_of_100_megabytes_is_refused_and_not_held(served: Served) -> None:
    head = f"POST {MAPS} HTTP/1.1\r\n{HEAD}Transfer-Encoding: chunked\r\n\r\n"
    chunk = b"%x\r\n%b\r\n" % (1_000_000, b" " * 1_000_000)
    tracemalloc.start()
    try:
        with connect(served) as client:
            client.sendall(head.encode())
            for _ in range(100):
                if select.select([client], [], [], 0)[0]:
                    break  # the answer does not need the end of the body
                client.sendall(chunk)
            answer = client.recv(65536)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert json.loads(answer.partition(b"\r\n\r\n")[2]) == TOO_LARGE
    assert peak < 32 * 1024 * 1024


def test_request_body_of_three_megabytes_is_accepted(served: Served) -> None:
    body = json.dumps({"metadata": {"name": "a"}}).encode().ljust(3 * 1024 * 1024)
    assert served.send("POST", MAPS, body).status == 201


def test_expect_continue_is_answered(served: Served) -> None:
    with connect(served) as client:
        client.sendall(
            f"POST {MAPS} HTTP/1.1\r\n{HEAD}Expect: 100-continue\r\nConnection: close\r\n"
            "Content-Length: 25\r\n\r\n".encode()
        )
        assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b'{"metadata":{"name":"a"}}')
        assert rest(client).startswith(b"HTTP/1.1 201 Created\r\n")


DEEP = b'{"metadata":{"name":"a"},"x":' + b"[" * 5000 + b"]" * 5000 + b"}"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", f"{UNRECOGNIZED}unexpected end of JSON input (<empty>)"),
        (b"\xff\xfe", f"{UNRECOGNIZED}invalid character 'ÿ' looking for beginning of value (fffe)"),
        (b"{} x", f"{UNRECOGNIZED}invalid character 'x' after top-level value ({{}} x)"),
        (
            b'{"a":"\1"}',
            UNRECOGNIZED + "invalid character '\\x01' in string literal ({\"a\":\"\1\"})",
        ),
        (
            DEEP,
            f"{UNRECOGNIZED}invalid character '[' exceeded max depth "
            '({"metadata":{"name":"a"},"x":[ ...)',
        ),
    ],
)  # fmt: skip
def test_malformed_json_is_rejected(served: Served, body: bytes, message: str) -> None:
    answer = served.send("POST", MAPS, body)
    assert (answer.status, answer.json()["message"]) == (400, message)


def test_invalid_utf_8_is_replaced(served: Served) -> None:
    body = b'{"metadata":{"name":"a"},"data":{"a":"\xff","b":"\\ud800"}}'
    assert served.json("POST", MAPS, body)["data"] == {"a": "�", "b": "�"}


def bomb(levels: int) -> bytes:
    lines = ['a0: &a0 ["x"]']
    lines += [f"a{at}: &a{at} [{','.join([f'*a{at - 1}'] * 9)}]" for at in range(1, levels)]
    return "\n".join(lines).encode()


@pytest.mark.parametrize("body", [bomb(12), b"a: &a [*a]"])
def test_yaml_alias_expansion_is_limited(served: Served, body: bytes) -> None:
    answer = served.send("POST", MAPS, body, Content_Type="application/yaml")
    assert answer.status == 400
    assert "yaml: document contains excessive aliasing (" in answer.json()["message"]


@pytest.mark.parametrize("body", [b"{a: " * 3000 + b"1" + b"}" * 3000, b"- " * 3000])
def test_yaml_depth_is_limited(served: Served, body: bytes) -> None:
    answer = served.send("POST", MAPS, body, Content_Type="application/yaml")
    assert answer.status == 400
    assert "yaml: exceeded max depth (" in answer.json()["message"]


def test_json_patch_copies_are_limited(served: Served) -> None:
    served.send("POST", MAPS, {"metadata": {"name": "a"}, "data": {"a": "x" * 1000}})
    double = [{"op": "copy", "from": "/data", "path": f"/data/{at}"} for at in range(40)]
    answer = served.send("PATCH", f"{MAPS}/a", double, Content_Type="application/json-patch+json")
    assert answer.status == 422


@pytest.mark.parametrize(
    ("body", "given", "field"),
    [
        ({"dryRun": 5}, "number", "dryRun of type []string"),
        ({"gracePeriodSeconds": "x"}, "string", "gracePeriodSeconds of type int64"),
        ({"preconditions": 5}, "number", "preconditions of type v1.Preconditions"),
    ],
)  # fmt: skip
def test_delete_options_are_type_checked(
    served: Served, body: dict[str, object], given: str, field: str
) -> None:
    answer = served.send("DELETE", f"{MAPS}/a", body)
    assert answer.status == 400
    assert answer.json()["message"] == (
        f"json: cannot unmarshal {given} into Go struct field DeleteOptions.{field}"
    )


LARGE = "9" * 20
OUT_OF_RANGE = f'parsing "{LARGE}": value out of range'


@pytest.mark.parametrize(
    ("query", "status", "message"),
    [
        ("limit=1_0", 400, 'strconv.ParseInt: parsing "1_0": invalid syntax'),
        (f"limit={LARGE}", 400, f"strconv.ParseInt: {OUT_OF_RANGE}"),
        (
            "resourceVersion=%C2%B2",
            400,
            'invalid resource version: resourceVersion: Invalid value: "²": '
            'strconv.ParseUint: parsing "²": invalid syntax',
        ),
        (
            f"watch=1&resourceVersion={LARGE}",
            500,
            f'resourceVersion: Invalid value: "{LARGE}": strconv.ParseUint: {OUT_OF_RANGE}',
        ),
    ],
)
def test_numbers_parse_as_in_go(served: Served, query: str, status: int, message: str) -> None:
    answer = served.send("GET", f"{MAPS}?{query}")
    assert (answer.status, answer.json()["message"]) == (status, message)


def test_head_of_a_resource_is_rejected(served: Served) -> None:
    assert served.send("HEAD", MAPS).status == 405
