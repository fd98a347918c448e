from __future__ import annotations

import base64
import socket
import struct
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from pytest_kwait.simulator.apiserver.subresources.proxy import rewrite_links
from pytest_kwait.simulator.apiserver.subresources.spdy import header_dictionary
from pytest_kwait.simulator.busybox.os.machine import Machine
from pytest_kwait.simulator.busybox.os.network import Network
from pytest_kwait.simulator.clock import SimClock
from pytest_kwait.simulator.kubelet.logs import ContainerLog
from pytest_kwait.simulator.kubelet.server import PodPorts
from pytest_kwait.simulator.runtimes.interpreted.container import (
    InterpretedContainer,
    make_container_files,
)
from tests.simulator.apiserver.conftest import read_metrics
from tests.simulator.runtimes.configs import make_config

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from pytest_kwait.simulator.busybox.os.streams import ProcessSession
    from tests.simulator.apiserver.conftest import Served

BASE = "/api/v1/namespaces/a/pods/p/proxy"


@pytest.mark.parametrize(
    ("page", "linked"),
    [
        ("plain text, 1 < 2", "plain text, 1 < 2"),
        ("<P>x</P>", "<p>x</P>"),
        ("<a href=/x>", f'<a href="{BASE}/x">'),
        ("<A HREF='/x' Class=y>", f'<a href="{BASE}/x" class="y">'),
        ('<img src="/i"/>', f'<img src="{BASE}/i"/>'),
        ('<a href="x">', '<a href="x">'),
        ('<a href="//other/x">', '<a href="//other/x">'),
        ('<a href="https://other/x">', '<a href="https://other/x">'),
        ('<p title="/x">', '<p title="/x">'),
        ("<form action=/do><input disabled>", f'<form action="{BASE}/do"><input disabled="">'),
    ],
)
def test_links_are_rewritten_for_the_proxy(page: str, linked: str) -> None:
    assert rewrite_links(page, BASE) == linked


PODS = "/api/v1/namespaces/default/pods"


class Kubelet:
    """A kubelet with fixed containers."""

    def __init__(self) -> None:
        self.network = Network()
        self.sizes: list[tuple[int, int]] = []
        self.lines = [
            (1767225600.0, b"one\n"),
            (1767225601.5, b"two\n"),
            (1767225602.0, b"three\n"),
        ]

    def pods(self) -> dict[str, Any]:
        return {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": []}

    def logs(
        self, namespace: str, pod: str, container: str, *, previous: bool = False
    ) -> list[tuple[float, bytes]]:
        return self.lines[:1] if previous else self.lines

    async def follow(
        self, namespace: str, pod: str, container: str
    ) -> AsyncIterator[tuple[float, bytes]]:
        for line in self.lines:
            yield line

    def container_logs(self) -> Iterator[Any]:
        """No logs for recordings."""
        return iter(())

    def start(self) -> None:
        """Start the container, in the server's thread."""
        clock = SimClock()
        files = make_container_files(clock.time, "host", self.network, {}, {}, [])
        self.container = InterpretedContainer(
            Machine(clock), make_config(ContainerLog(), stdin=True), lambda _: None, self.network
        )
        script = (
            "mkdir -p /www; echo '<a href=/x>hi</a>' > /www/index.html; echo a > /www/a.txt; "
            "httpd -p 8080 -h /www; nc -ll -p 7 -e cat & cat"
        )
        self.container.launch(["sh", "-c", script], files, "host")

    def run(
        self, namespace: str, pod: str, container: str, argv: list[str], *, stdin: bool, tty: bool
    ) -> ProcessSession:
        session = self.container.run(argv, stdin=stdin, tty=tty)
        session.resize = lambda columns, rows: self.sizes.append((columns, rows))
        if argv == ["ls"]:
            session.output.fail("no such program")
        return session

    def attach(self, namespace: str, pod: str, container: str, *, stdin: bool) -> ProcessSession:
        if pod == "over":
            raise LookupError(f"container {container} not found in pod {pod}_{namespace}")
        return self.container.attach(stdin=stdin)

    def network_of(self, namespace: str, pod: str) -> PodPorts:
        if pod == "over":
            raise LookupError(f'pod not found ("{pod}_{namespace}")')
        return PodPorts(self.network)

    async def dial(self, address: str, port: int, *, tls: bool = False) -> ProcessSession | None:
        if address != "10.1.2.3":
            return None
        return await PodPorts(self.network).connect(port, tls=tls)

    def find_network(self, address: str) -> Network | None:
        return self.network if address == "10.1.2.3" else None

    def list_addresses(self) -> list[tuple[str, dict[str, Any]]]:
        return []

    def running_pods(self) -> dict[str, Any]:
        return {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [{}]}

    def counts(self) -> dict[str, int]:
        return {"created": 0, "exited": 1, "running": 2}


@pytest.fixture
def kubelet(served: Served) -> Kubelet:
    kubelet = Kubelet()
    served.json("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})
    served.run(kubelet.start)
    served.run(lambda: served.api.kubelets.update(n=kubelet))
    return kubelet


def make(served: Served, name: str, node: str = "", *containers: str, **status: Any) -> None:
    every = [{"name": one, "image": "x:1"} for one in containers or ("c",)]
    spec: dict[str, Any] = {"containers": every}
    if node:
        spec["nodeName"] = node
    served.json("POST", PODS, {"metadata": {"name": name}, "spec": spec})
    if status:
        served.json(
            "PATCH",
            f"{PODS}/{name}/status",
            {"status": status},
            Content_Type="application/merge-patch+json",
        )


RUNNING = {
    "containerStatuses": [{"name": "c", "state": {"running": {}}}],
    "podIP": "10.1.2.3",
    "podIPs": [{"ip": "10.1.2.3"}],
    "conditions": [{"type": "Ready", "status": "True"}],
}


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("", b"one\ntwo\nthree\n"),
        ("?tailLines=1", b"three\n"),
        ("?tailLines=0", b""),
        ("?limitBytes=5", b"one\nt"),
        ("?sinceTime=2026-01-01T00:00:01Z", b"two\nthree\n"),
        ("?follow=true", b"one\ntwo\nthree\n"),
        ("?follow=1&tailLines=2&limitBytes=7", b"two\nthr"),
        ("?follow=&sinceTime=2026-01-01T00:00:02Z", b"three\n"),
        ("?timestamps=true&tailLines=1", b"2026-01-01T00:00:02.000000000Z three\n"),
    ],
)
def test_logs_select_lines_by_options(
    served: Served, kubelet: Kubelet, query: str, text: bytes
) -> None:
    make(served, "p", "n", **RUNNING)
    answer = served.send("GET", f"{PODS}/p/log{query}")
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert answer.data == text


def test_logs_of_an_unscheduled_pod_have_no_content(served: Served) -> None:
    make(served, "p")
    assert served.send("GET", f"{PODS}/p/log").status == 204


@pytest.mark.parametrize(
    ("query", "status", "message"),
    [
        ("?container=z", RUNNING, "container z is not valid for pod p"),
        (
            "?previous=true",
            RUNNING,
            'previous terminated container "c" in pod "p" not found',
        ),
        (
            "",
            {
                "containerStatuses": [
                    {"name": "c", "state": {"waiting": {"reason": "ContainerCreating"}}}
                ]
            },
            'container "c" in pod "p" is waiting to start: ContainerCreating',
        ),
        (
            "",
            {
                "containerStatuses": [
                    {"name": "c", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
                ]
            },
            'container "c" in pod "p" is waiting to start: trying and failing to pull image',
        ),
    ],
)
def test_logs_reject_invalid_requests(
    served: Served, kubelet: Kubelet, query: str, status: dict[str, Any], message: str
) -> None:
    make(served, "p", "n", **status)
    answer = served.send("GET", f"{PODS}/p/log{query}")
    assert (answer.status, answer.json()["message"]) == (400, message)


def test_logs_require_a_container_name(served: Served, kubelet: Kubelet) -> None:
    make(served, "p", "n", "a", "b")
    answer = served.json("GET", f"{PODS}/p/log")
    assert answer["message"] == (
        "a container name must be specified for pod p, choose one of: [a b]"
    )


def test_node_proxy_serves_the_kubelets_paths(served: Served, kubelet: Kubelet) -> None:
    path = "/api/v1/nodes/n/proxy"
    assert served.json("GET", f"{path}/pods")["kind"] == "PodList"
    assert served.send("GET", f"{path}/healthz").data == b"ok"
    assert served.send("GET", f"{path}/nope").status == 404
    assert served.send("GET", "/api/v1/nodes/none/proxy/pods").status == 404


def test_node_proxy_reports_a_missing_kubelet(served: Served) -> None:
    served.json("POST", "/api/v1/nodes", {"metadata": {"name": "gone"}})
    answer = served.send("GET", "/api/v1/nodes/gone/proxy/pods")
    assert (answer.status, answer.json()["reason"]) == (503, "ServiceUnavailable")


# -- streams


def connect(served: Served, path: str, *protocols: str) -> Any:
    websocket = pytest.importorskip("websocket")
    return websocket.create_connection(
        f"ws://127.0.0.1:{served.port}{PODS}/{path}",
        header=["Authorization: Bearer admin-token"],
        subprotocols=list(protocols) or None,
        timeout=30,
    )


def exchange(served: Served, path: str, *protocols: str, send: tuple[Any, ...] = ()) -> list[Any]:
    """Return all messages until the server closes the socket, after its protocol."""
    websocket = pytest.importorskip("websocket")
    socket = connect(served, path, *protocols)
    found: list[Any] = [socket.getsubprotocol()]
    try:
        for message in send:
            (socket.send if isinstance(message, str) else socket.send_binary)(message)
        while True:
            code, data = socket.recv_data()
            if code == websocket.ABNF.OPCODE_CLOSE:
                return [*found, int.from_bytes(data[:2], "big")]
            found.append(data.decode() if code == websocket.ABNF.OPCODE_TEXT else data)
    finally:
        socket.shutdown()


V3, V4, V5 = (f"v{number}.channel.k8s.io" for number in (3, 4, 5))
SUCCESS = b'\x03{"metadata":{},"status":"Success"}'
EXIT = "p/exec?command=sh&command=-c&command=exit+3&stdout=1"
FAILURE = (
    '{"metadata":{},"status":"Failure","message":"command terminated with non-zero exit code: '
    'TEXT","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}'
)
LONG = "error executing command [sh -c exit 3], exit code 3"


@pytest.mark.parametrize(
    ("query", "protocols", "messages"),
    [
        ("command=echo&command=hi&stdout=1", [V5], [V5, b"\x01", b"\x01hi\n", SUCCESS, 1000]),
        ("command=echo&command=hi&stdout=1", [V4], [V4, b"\x01", b"\x01hi\n", SUCCESS, 1000]),
        ("command=echo&command=hi&stdout=1", [V5, V4], [V5, b"\x01", b"\x01hi\n", SUCCESS, 1000]),
        ("command=echo&command=hi&stdout=1", [], [None, b"\x01", b"\x01hi\n", 1000]),
        ("command=echo&command=hi&stderr=true", [V4], [V4, b"\x02", SUCCESS, 1000]),
        ("command=cat&command=/no&stderr=1", [V4], [
            V4, b"\x02", b"\x02cat: can't open '/no': No such file or directory\n",
            b"\x03" + FAILURE.replace("TEXT", "error executing command [cat /no], exit code 1")
            .replace('"3"', '"1"').encode(), 1000,
        ]),
        (
            "command=echo&command=hi&stdout=1",
            ["v4.base64.channel.k8s.io"],
            [
                "v4.base64.channel.k8s.io", "1", "1aGkK",
                "3eyJtZXRhZGF0YSI6e30sInN0YXR1cyI6IlN1Y2Nlc3MifQ==", 1000,
            ],
        ),
    ],
)  # fmt: skip
def test_exec_runs_commands_over_websocket(
    served: Served, kubelet: Kubelet, query: str, protocols: list[str], messages: list[Any]
) -> None:
    make(served, "p", "n", **RUNNING)
    assert exchange(served, f"p/exec?{query}", *protocols) == messages


@pytest.mark.parametrize(
    ("protocol", "told"),
    [
        (V4, FAILURE.replace("TEXT", LONG)),
        (V5, FAILURE.replace("TEXT", "command terminated with exit code 3")),
        ("channel.k8s.io", f"command terminated with non-zero exit code: {LONG}"),
    ],
)
def test_exec_reports_exit_status(
    served: Served, kubelet: Kubelet, protocol: str, told: str
) -> None:
    make(served, "p", "n", **RUNNING)
    assert exchange(served, EXIT, protocol) == [protocol, b"\x01", b"\x03" + told.encode(), 1000]


@pytest.mark.parametrize(
    ("query", "protocols", "messages"),
    [
        ("", [], [None, b"", b"one\n", b"two\n", b"three\n", 1000]),
        ("?tailLines=1", ["binary.k8s.io"], ["binary.k8s.io", b"", b"three\n", 1000]),
        ("?follow=1&limitBytes=5", [], [None, b"", b"one\n", b"t", 1000]),
        (
            "?follow=1&tailLines=1",
            ["nonsense", "base64.binary.k8s.io"],
            ["base64.binary.k8s.io", "", "dGhyZWUK", 1000],
        ),
    ],
)
def test_logs_over_websocket(
    served: Served, kubelet: Kubelet, query: str, protocols: list[str], messages: list[Any]
) -> None:
    make(served, "p", "n", **RUNNING)
    assert exchange(served, f"p/log{query}", *protocols) == messages


def test_long_log_lines_are_several_messages(served: Served, kubelet: Kubelet) -> None:
    make(served, "p", "n", **RUNNING)
    kubelet.lines = [(1767225600.0, b"x" * 5000 + b"\n")]
    assert exchange(served, "p/log") == [
        None, b"", b"x" * 2048, b"x" * 2048, b"x" * 904 + b"\n", 1000
    ]  # fmt: skip


def test_logs_over_websocket_refuse_unknown_protocols(served: Served, kubelet: Kubelet) -> None:
    websocket = pytest.importorskip("websocket")
    make(served, "p", "n", **RUNNING)
    with pytest.raises(websocket.WebSocketBadStatusException, match="403 Forbidden"):
        connect(served, "p/log", "nonsense")


@pytest.mark.parametrize("protocol", ["channel.k8s.io", "base64.channel.k8s.io"])
def test_old_protocols_report_a_missing_command_as_text(
    served: Served, kubelet: Kubelet, protocol: str
) -> None:
    make(served, "p", "n", **RUNNING)
    *_, message, code = exchange(served, "p/exec?command=nope&stdout=1", protocol)
    assert code == 1000
    if isinstance(message, str):
        message = b"\x03" + base64.b64decode(message[1:])
    text = b"Internal error occurred: error executing command in container: failed to exec"
    assert message.startswith(b"\x03" + text)


@pytest.mark.parametrize(("protocol", "prefix"), [(V4, ""), (V5, "Internal error occurred: ")])
def test_exec_reports_a_missing_command(
    served: Served, kubelet: Kubelet, protocol: str, prefix: str
) -> None:
    make(served, "p", "n", **RUNNING)
    *_, told, code = exchange(served, "p/exec?command=nope&stdout=1", protocol)
    assert code == 1000
    text = f"Internal error occurred: {prefix}error executing command in container: failed to exec"
    assert told.startswith(f'\x03{{"metadata":{{}},"status":"Failure","message":"{text}'.encode())


@pytest.mark.parametrize(
    ("protocol", "message"),
    [
        (V4, b"\x00echo typed; exit\n"),
        (V4, "\x00echo typed; exit\n"),
        ("v4.base64.channel.k8s.io", "0ZWNobyB0eXBlZDsgZXhpdAo="),
    ],
)
def test_exec_accepts_binary_and_text_input(
    served: Served, kubelet: Kubelet, protocol: str, message: bytes | str
) -> None:
    make(served, "p", "n", **RUNNING)
    path = "p/exec?command=sh&stdin=1&stdout=1"
    found = exchange(served, path, protocol, send=(message,))
    assert found[2] in (b"\x01typed\n", "1dHlwZWQK")


def test_exec_closes_stdin_on_request(served: Served, kubelet: Kubelet) -> None:
    make(served, "p", "n", **RUNNING)
    sent = (b"\x04{}", b"\x00abc", b"\xff\x00")
    found = exchange(served, "p/exec?command=cat&stdin=1&stdout=1", V5, send=sent)
    assert b"".join(one[1:] for one in found[2:-2]) == b"abc"
    assert found[-2:] == [SUCCESS, 1000]


def test_exec_runs_a_shell_with_a_terminal(served: Served, kubelet: Kubelet) -> None:
    make(served, "p", "n", **RUNNING)
    path = "p/exec?command=sh&stdin=1&stdout=1&stderr=1&tty=1"
    found = exchange(served, path, V4, send=(b"\x00echo hi; exit\r",))
    assert b"echo hi; exit\r\nhi\r\n" in b"".join(one[1:] for one in found[1:-2])
    assert found[-2] == SUCCESS


def test_attach_connects_to_the_running_program(served: Served, kubelet: Kubelet) -> None:
    make(served, "p", "n", **RUNNING)
    socket = connect(served, "p/attach?stdin=1&stdout=1", V4)
    try:
        assert socket.recv() == b"\x01"
        socket.send_binary(b"\x00hello\n")
        assert socket.recv() == b"\x01hello\n"
    finally:
        socket.shutdown()


@pytest.mark.parametrize(
    ("path", "protocols", "status", "text"),
    [
        ("p/exec?command=true", [V4], 400, "you must specify at least 1 of stdin, stdout, stderr"),
        ("p/exec?command=true&stdout=1", ["odd"], 403, ""),
        (
            "over/attach?stdout=1",
            [V4],
            500,
            "container c not found in pod over_default",
        ),
        ("p/portforward", [V4], 400, 'query parameter "port" is required'),
        ("p/portforward?ports=0", [V4], 400, 'port "0" must be > 0'),
        (
            "p/portforward?ports=70000",
            [V4],
            400,
            'unable to parse "70000" as a port: strconv.ParseUint: parsing "70000": value out of '
            "range",
        ),
        ("over/portforward?ports=80", [V4], 500, 'pod not found ("over_default")'),
        ("p/portforward?ports=80", [V5], 403, ""),
    ],
)
def test_exec_rejects_invalid_streams(
    served: Served, kubelet: Kubelet, path: str, protocols: list[str], status: int, text: str
) -> None:
    websocket = pytest.importorskip("websocket")
    for name in ("p", "over"):
        make(served, name, "n", **RUNNING)
    with pytest.raises(websocket.WebSocketBadStatusException) as error:
        connect(served, path, *protocols)
    assert (error.value.status_code, (error.value.resp_body or b"").decode()) == (status, text)


def test_exec_requires_a_node_and_a_websocket(served: Served, kubelet: Kubelet) -> None:
    make(served, "p")
    answer = served.send("GET", f"{PODS}/p/exec?command=a")
    assert (answer.status, answer.json()["message"]) == (
        400,
        "pod p does not have a host assigned",
    )
    make(served, "q", "n", **RUNNING)
    for path in ("exec?command=a&stdout=1", "attach", "portforward?ports=80"):
        answer = served.send("POST", f"{PODS}/q/{path}")
        assert (answer.status, answer.json()["message"]) == (400, "Upgrade request required")


def test_exec_reports_a_missing_kubelet(served: Served, kubelet: Kubelet) -> None:
    served.json("POST", "/api/v1/nodes", {"metadata": {"name": "gone"}})
    make(served, "p", "gone", **RUNNING)
    make(served, "q", "nowhere", **RUNNING)
    answer = served.send("GET", f"{PODS}/p/log")
    assert (answer.status, answer.json()["message"]) == (
        500,
        "error dialing backend: dial tcp: lookup gone: no such host",
    )
    assert served.send("GET", f"{PODS}/q/log").json()["message"] == 'pods "nowhere" not found'


# -- ports


def test_portforward_over_websocket_channels(served: Served, kubelet: Kubelet) -> None:
    make(served, "p", "n", **RUNNING)
    request = b"\x00GET /a.txt HTTP/1.0\r\n\r\n"
    found = exchange(served, "p/portforward?ports=8080,81", V4, send=(request,))
    protocol, *greetings = found[:5]
    assert protocol == V4
    assert greetings == [b"\x00\x90\x1f", b"\x01\x90\x1f", b"\x02Q\x00", b"\x03Q\x00"]
    told = b"".join(one for one in found[5:-1] if one[:1] == b"\x03").decode()
    assert told.startswith("\x03error forwarding port 81 to pod ")
    assert "failed to connect to localhost:81" in told
    data = b"".join(one[1:] for one in found[5:-1] if one[:1] == b"\x00")
    assert data.startswith(b"HTTP/1.1 200 OK\r\n")
    assert data.endswith(b"\r\n\r\na\n")
    assert found[-1] == 1000


class Spdy:
    """A SPDY client, as kubectl: by default in a WebSocket."""

    def __init__(self, socket: Any) -> None:
        self.socket = socket
        self.deflate = zlib.compressobj(zdict=header_dictionary())
        self.buffer = b""
        self.resets: list[int] = []

    def open(self, number: int, *, end: bool = False, **headers: str) -> None:
        block = struct.pack(">I", len(headers))
        for name, value in headers.items():
            for text in (name, value):
                block += struct.pack(">I", len(text)) + text.encode()
        packed = self.deflate.compress(block) + self.deflate.flush(zlib.Z_SYNC_FLUSH)
        body = struct.pack(">IIBB", number, 0, 0, 0) + packed
        self.socket.send_binary(struct.pack(">HHI", 0x8003, 1, int(end) << 24 | len(body)) + body)

    def send(self, number: int, data: bytes, *, end: bool = False) -> None:
        head = struct.pack(">II", number, int(end) << 24 | len(data))
        # Frames may span messages.
        whole = head + data
        self.socket.send_binary(whole[:5])
        self.socket.send_binary(whole[5:])

    def control(self, kind: int, body: bytes) -> None:
        self.socket.send_binary(struct.pack(">HHI", 0x8003, kind, len(body)) + body)

    def frame(self) -> tuple[str, int, int, bytes]:
        """Return the next frame: `data` or `control`, its stream or kind, flags and body.

        Raises:
            EOFError: the server has closed the connection.
        """
        while len(self.buffer) < 8 or len(self.buffer) < 8 + self._length():
            received = self.socket.recv()
            if not received:
                raise EOFError
            self.buffer += received
        first, _ = struct.unpack_from(">II", self.buffer)
        flags, length = self.buffer[4], self._length()
        body, self.buffer = self.buffer[8 : 8 + length], self.buffer[8 + length :]
        if first >> 31:
            if first & 0xFFFF == 3:
                self.resets.append(struct.unpack_from(">I", body)[0])
            return "control", first & 0xFFFF, flags, body
        return "data", first, flags, body

    def _length(self) -> int:
        return int(struct.unpack_from(">I", self.buffer, 4)[0] & 0xFFFFFF)

    def data(self, *numbers: int) -> dict[int, bytes]:
        """Return the data of each stream until all have ended."""
        found = dict.fromkeys(numbers, b"")
        left = set(numbers)
        while left:
            what, number, flags, body = self.frame()
            if what == "data":
                found[number] += body
                if flags & 1:
                    left.discard(number)
        return found


def test_portforward_through_a_spdy_tunnel(served: Served, kubelet: Kubelet) -> None:
    make(served, "p", "n", **RUNNING)
    tunnel = "SPDY/3.1+portforward.k8s.io"
    socket = connect(served, "p/portforward", tunnel)
    try:
        assert socket.getsubprotocol() == tunnel.lower()
        client = Spdy(socket)
        for request, port in (("0", "7"), ("1", "81"), ("2", "7")):
            shift = 4 * int(request)
            client.open(1 + shift, end=True, streamtype="error", port=port, requestid=request)
            client.open(3 + shift, streamtype="data", port=port, requestid=request)
        client.control(6, b"\0\0\0\1")
        client.send(3, b"one ")
        client.send(3, b"two", end=True)
        client.send(11, b"three", end=True)
        found = client.data(1, 3, 5, 7, 9, 11)
        assert (found[1], found[3]) == (b"", b"one two")
        assert (found[9], found[11]) == (b"", b"three")
        assert found[5].startswith(b"error forwarding port 81 to pod ")
        assert found[7] == b""
        client.control(7, b"\0" * 8)
        assert not socket.recv()
    finally:
        socket.shutdown()


class Upgraded:
    """A connection after its upgrade to SPDY, with the methods of a WebSocket."""

    def __init__(
        self, served: Served, path: str, *protocols: str, upgrade: str = "SPDY/3.1"
    ) -> None:
        self.socket = socket.create_connection(("127.0.0.1", served.port), timeout=60)
        head = [f"POST {PODS}/{path} HTTP/1.1", "Host: a", "Authorization: Bearer admin-token"]
        head += ["Connection: Upgrade", f"Upgrade: {upgrade}", "Content-Length: 0"]
        head += [f"X-Stream-Protocol-Version: {protocol}" for protocol in protocols]
        self.socket.sendall("\r\n".join([*head, "", ""]).encode())
        self._early = b""
        while b"\r\n\r\n" not in self._early:
            self._early += self.socket.recv(4096)
        head_bytes, _, self._early = self._early.partition(b"\r\n\r\n")
        self.status = int(head_bytes.split()[1])
        self.head = head_bytes.decode().lower()

    def send_binary(self, data: bytes) -> None:
        self.socket.sendall(data)

    def recv(self) -> bytes:
        early, self._early = self._early, b""
        return early or self.socket.recv(65536)

    def shutdown(self) -> None:
        self.socket.close()


@pytest.fixture
def upgrade(served: Served, kubelet: Kubelet) -> Iterator[Callable[..., Upgraded]]:
    """Opens SPDY connections to the pod `p`."""
    make(served, "p", "n", **RUNNING)
    opened: list[Upgraded] = []

    def upgrade(path: str, *protocols: str, **options: str) -> Upgraded:
        opened.append(Upgraded(served, path, *protocols, **options))
        return opened[-1]

    yield upgrade
    for each in opened:
        each.shutdown()


@pytest.mark.parametrize(
    ("offered", "protocol", "status"),
    [
        (["v5.channel.k8s.io, v4.channel.k8s.io", V3], V4, b'"reason":"NonZeroExitCode"'),
        (["channel.k8s.io"], "channel.k8s.io", b"command terminated with non-zero exit code"),
    ],
)
def test_exec_over_spdy(
    upgrade: Callable[..., Upgraded], offered: list[str], protocol: str, status: bytes
) -> None:
    script = "cat; echo error >&2; exit 3"
    path = f"p/exec?command=sh&command=-c&command={quote(script)}&stdin=1&stdout=1&stderr=1"
    connection = upgrade(path, *offered)
    assert connection.status == 101
    assert f"x-stream-protocol-version: {protocol}" in connection.head
    client = Spdy(connection)
    client.open(9, streamtype="other")
    for number, name in ((1, "error"), (3, "stdin"), (5, "stdout"), (7, "stderr")):
        client.open(number, streamtype=name)
    client.send(3, b"one ")
    client.send(3, b"two")
    client.send(3, b"", end=True)
    found = client.data(1, 3, 5, 7)
    assert (found[3], found[5], found[7]) == (b"", b"one two", b"error\n")
    assert status in found[1]
    assert b"exit code 3" in found[1]
    # The stream of another type was refused alone.
    assert client.resets == [9]
    connection.socket.shutdown(socket.SHUT_WR)
    assert connection.recv() == b""


def test_input_over_spdy_that_ends_with_its_data(upgrade: Callable[..., Upgraded]) -> None:
    client = Spdy(upgrade("p/exec?command=cat&stdin=1&stdout=1", V4))
    for number, name in ((1, "error"), (3, "stdin"), (5, "stdout")):
        client.open(number, streamtype=name)
    client.send(3, b"x" * 3_000_000, end=True)
    found = client.data(1, 3, 5)
    assert len(found[5]) == 3_000_000
    assert b'"status":"Success"' in found[1]


def test_exec_over_spdy_sets_the_size_of_the_terminal(
    upgrade: Callable[..., Upgraded], kubelet: Kubelet
) -> None:
    client = Spdy(upgrade("p/exec?command=cat&stdin=1&stdout=1&tty=1", V4))
    for number, name in ((1, "error"), (3, "stdin"), (5, "stdout"), (7, "resize")):
        client.open(number, streamtype=name)
    size = b'{"Width":80,"Height":24}\n'
    client.send(7, size[:9])
    client.send(7, size[9:] + b"odd\n" + b'{"Width":81,"Height":25}\n')
    client.send(3, b"\x04", end=True)
    client.data(1, 3, 5, 7)
    assert kubelet.sizes == [(80, 24), (81, 25)]


def test_attach_over_spdy(upgrade: Callable[..., Upgraded]) -> None:
    client = Spdy(upgrade("p/attach?stdin=1&stdout=1", V4))
    for number, name in ((1, "error"), (3, "stdin"), (5, "stdout")):
        client.open(number, streamtype=name)
    client.send(3, b"hello\n")
    frames = iter(client.frame, None)
    assert next(body for what, number, _, body in frames if (what, number) == ("data", 5)) == (
        b"hello\n"
    )
    client.control(3, struct.pack(">II", 3, 5))


@pytest.mark.parametrize(
    ("path", "offered", "options", "status", "text"),
    [
        ("p/exec?command=a&stdout=1", [], {}, 400, "X-Stream-Protocol-Version is required"),
        (
            "p/attach?stdout=1",
            ["odd, v5.channel.k8s.io"],
            {},
            403,
            "unable to negotiate protocol: client supports [odd v5.channel.k8s.io], server accepts "
            "[v4.channel.k8s.io v3.channel.k8s.io v2.channel.k8s.io channel.k8s.io]",
        ),
        (
            "p/exec?command=a&stdout=1",
            [V4],
            {"upgrade": "h2c"},
            400,
            "missing upgrade headers in request",
        ),
        (
            "p/portforward",
            [V4],
            {},
            403,
            "unable to negotiate protocol: client supports [v4.channel.k8s.io], server accepts "
            "[portforward.k8s.io]",
        ),
    ],
)
def test_spdy_requires_a_known_protocol(
    upgrade: Callable[..., Upgraded],
    path: str,
    offered: list[str],
    options: dict[str, str],
    status: int,
    text: str,
) -> None:
    connection = upgrade(path, *offered, **options)
    assert (connection.status, connection.recv().decode()) == (
        status,
        f"unable to upgrade: {text}\n",
    )


def test_portforward_over_spdy(upgrade: Callable[..., Upgraded]) -> None:
    client = Spdy(upgrade("p/portforward", "portforward.k8s.io"))
    for number, name, port in (
        (1, "error", "x"),
        (3, "error", "0"),
        (5, "data", ""),
        (7, "a", "7"),
    ):
        client.open(number, streamtype=name, port=port, requestid="odd")
    # Older clients send no requestID.
    client.open(9, end=True, streamtype="error", port="7")
    client.open(11, streamtype="data", port="7")
    client.open(13, end=True, streamtype="error", port="81", requestid="2")
    client.open(15, streamtype="error", port="81", requestid="2")
    client.open(17, streamtype="data", port="81", requestid="2")
    client.send(11, b"one", end=True)
    found = client.data(9, 11, 13, 17)
    assert (found[9], found[11], found[17]) == (b"", b"one", b"")
    assert found[13].startswith(b"error forwarding port 81 to pod ")
    assert client.resets == [1, 3, 5, 7, 15]


@pytest.mark.parametrize("path", ["p/exec?command=cat&stdin=1&stdout=1", "p/portforward"])
def test_spdy_data_that_nobody_reads_is_limited(
    upgrade: Callable[..., Upgraded], path: str
) -> None:
    """A client that opens one stream alone cannot fill the server's memory."""
    connection = upgrade(path, V4, "portforward.k8s.io")
    client = Spdy(connection)
    client.open(1, streamtype="stdin" if "exec" in path else "data", port="7")
    with suppress(ConnectionError):
        client.send(1, b"x" * (8 << 20))
    with suppress(ConnectionError):
        while connection.recv():
            pass


@pytest.mark.parametrize(
    "message",
    [
        struct.pack(">HHI", 0x8002, 1, 0),
        struct.pack(">HHI", 0x8003, 1, 4) + b"abcd",
        struct.pack(">HHI", 0x8003, 1, 14) + b"\0" * 10 + b"junk",
        struct.pack(">HHI", 0x8003, 4, 0xFFFFFF),
    ],
)
def test_portforward_tunnel_ends_on_a_malformed_frame(
    served: Served, kubelet: Kubelet, message: bytes
) -> None:
    make(served, "p", "n", **RUNNING)
    tunnel = "SPDY/3.1+portforward.k8s.io"
    assert exchange(served, "p/portforward", tunnel, send=(message,)) == [tunnel.lower(), 1000]


# -- proxies


def test_exec_sets_the_size_of_the_terminal(served: Served, kubelet: Kubelet) -> None:
    make(served, "p", "n")
    path = "p/exec?command=cat&stdin=1&stdout=1&tty=1"
    sizes = (b'\x04{"Width":80,"Height":24}', b"\x04{}", b"\x04[", b"\x00\x04")
    exchange(served, path, "v4.channel.k8s.io", send=sizes)
    assert kubelet.sizes == [(80, 24)]


def test_exec_reports_a_failure_that_comes_late(served: Served, kubelet: Kubelet) -> None:
    make(served, "p", "n")
    messages = exchange(served, "p/exec?command=ls&stdout=1&tag=late", "v4.channel.k8s.io")
    assert b"error executing command in container: no such program" in messages[-2]


def test_pod_proxy_forwards_requests(served: Served, kubelet: Kubelet) -> None:
    make(served, "p", "n", **RUNNING)
    answer = served.send("GET", f"{PODS}/p:8080/proxy/")
    assert (answer.status, answer.data) == (
        200,
        f'<a href="{PODS}/p:8080/proxy/x">hi</a>\n'.encode(),
    )
    assert answer.headers["Content-Type"] == "text/html"
    plain = served.send("GET", f"{PODS}/http:p:8080/proxy/a.txt?b=c")
    assert (plain.data, plain.headers["Content-Type"]) == (b"a\n", "text/plain")
    assert served.send("HEAD", f"{PODS}/p:8080/proxy/a.txt").data == b""
    assert served.send("GET", f"{PODS}/p:8080/proxy/b").status == 404
    assert served.send("POST", f"{PODS}/p:8080/proxy/", {}).status == 501
    bare = served.pool.request(
        "GET",
        f"http://127.0.0.1:{served.port}{PODS}/p:8080/proxy",
        headers={"Authorization": "Bearer admin-token"},
        redirect=False,
    )
    assert (bare.status, bare.headers["Location"]) == (301, f"{PODS}/p:8080/proxy/")


def test_links_of_a_pod_whose_name_starts_with_proxy_lead_to_it(
    served: Served, kubelet: Kubelet
) -> None:
    make(served, "proxy-p", "n", **RUNNING)
    answer = served.send("GET", f"{PODS}/proxy-p:8080/proxy/")
    assert answer.data == f'<a href="{PODS}/proxy-p:8080/proxy/x">hi</a>\n'.encode()


def test_pod_proxy_sends_method_path_and_headers(served: Served, kubelet: Kubelet) -> None:
    make(served, "p", "n", **RUNNING)
    # It echoes the request, which is no HTTP response.
    answer = served.send("PUT", f"{PODS}/p:7/proxy/x/?y=z", b"body", X_Mine="1")
    assert answer.status == 503
    assert answer.json()["message"] == (
        'error trying to reach service: malformed HTTP response "PUT /x/?y=z HTTP/1.1"'
    )


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (
            "p:81",
            "error trying to reach service: dial tcp 10.1.2.3:81: connect: connection refused",
        ),
        (
            "p",
            "error trying to reach service: dial tcp 10.1.2.3:80: connect: connection refused",
        ),
        (
            "https:p:8080",
            "error trying to reach service: tls: first record does not look like a TLS handshake",
        ),
        ("p:http", "error trying to reach service: dial tcp: lookup tcp/http: unknown port"),
    ],
)
def test_pod_proxy_reports_unreachable_pods(
    served: Served, kubelet: Kubelet, place: str, message: str
) -> None:
    make(served, "p", "n", **RUNNING)
    answer = served.send("GET", f"{PODS}/{place}/proxy/")
    assert (answer.status, answer.json()["message"]) == (503, message)


def test_service_proxy_forwards_requests(served: Served, kubelet: Kubelet) -> None:
    services = "/api/v1/namespaces/default/services"
    ports = [{"name": name, "port": port} for name, port in (("web", 80), ("other", 81))]
    served.json("POST", services, {"metadata": {"name": "s"}, "spec": {"ports": ports}})
    assert served.json("GET", f"{services}/s/proxy/")["message"] == 'services "s" not found'
    pod = {"ip": "10.1.2.3", "targetRef": {"kind": "Pod", "name": "p"}}
    strange = {"ip": "10.1.2.4"}
    made = {
        "metadata": {"name": "s"},
        "subsets": [
            {"notReadyAddresses": [pod], "ports": [{"name": "web", "port": 1}]},
            {"addresses": [strange, pod], "ports": [{"name": "web", "port": 8080}]},
        ],
    }
    served.json("POST", "/api/v1/namespaces/default/endpoints", made)
    assert served.send("GET", f"{services}/s:web/proxy/a.txt").data == b"a\n"
    assert served.send("GET", f"{services}/s:80/proxy/a.txt").data == b"a\n"
    for place, message in (
        ("s:81", 'no endpoints available for service "s:81"'),
        ("s:82", 'no service port 82 found for service "s"'),
        ("s", 'no endpoints available for service "s"'),
    ):
        answer = served.send("GET", f"{services}/{place}/proxy/")
        assert (answer.status, answer.json()["message"]) == (503, message)


def test_node_proxy_serves_metrics_and_logs(served: Served, kubelet: Kubelet) -> None:
    make(served, "p", "n", **RUNNING)
    path = "/api/v1/nodes/n:10250/proxy"
    assert served.json("GET", f"{path}/runningpods/")["items"] == [{}]
    answer = served.send("GET", f"{path}/metrics")
    assert answer.headers["Content-Type"] == (
        "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
    )
    samples = {
        (each.name, *each.labels.values()): each.value
        for family in read_metrics(answer.data)
        for each in family.samples
    }
    assert samples["kubelet_running_pods",] == 1
    assert samples["kubelet_running_containers", "running"] == 2
    logs = served.send("GET", f"{path}/containerLogs/default/p/c?tailLines=1")
    assert logs.data == b"three\n"
    assert served.send("GET", f"{path}/containerLogs/default/no/c").status == 404
    other = served.send("GET", "/api/v1/nodes/n:99/proxy/healthz")
    assert other.json()["message"] == (
        "error trying to reach service: dial tcp n:99: connect: connection refused"
    )
