"""Handlers of probes and lifecycle hooks: exec, HTTP GET, TCP connections, and their results.

A handler runs until it calls its `done`. Timeouts come from manifests, so they are in real
seconds.

Source: pkg/probe/http/http.go, `DoHTTPProbe`; pkg/probe/http/request.go.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import ssl
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol
from urllib.parse import quote, urljoin, urlsplit

from pytest_kwait.simulator.busybox.os.streams import ProcessSession
from pytest_kwait.simulator.kubelet.grpc_health import RECONNECT_SECONDS, HealthCheck
from pytest_kwait.simulator.kubelet_api import StartError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pytest_kwait.simulator.busybox.os.network import Network
    from pytest_kwait.simulator.clock import ScheduledCall, SimClock
    from pytest_kwait.simulator.kubelet.container import Container
    from pytest_kwait.simulator.kubelet.pod_context import PodContext
    from pytest_kwait.simulator.objects import Obj

_MAX_HEAD = 64 * 1024
_MAX_BODY = 10 * 1024
_MAX_REDIRECTS = 10
# Not a real TLS ClientHello: it ends with empty lines, so that a line-based server answers.
_TLS_HELLO = b"\x16\x03\x01\r\n\r\n"

# Seconds for the request of a hook; source: kubelet.go, `NewMainKubelet`.
_HOOK_TIMEOUT = 30.0
_MAX_OUTPUT = 10 * 1024
_SAFE_URL_CHARACTERS = "/?&=%:@!$'()*+,;~-._[]"


class ResultKind(Enum):
    """The result of a handler. `ERROR`: it could not be run, which does not count."""

    SUCCESS = "success"
    WARNING = "warning"
    FAILURE = "failure"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class HandlerResult:
    """A result with its text.

    Args:
        text: the reason in the kubelet's words.
        output: the output of a command.
    """

    kind: ResultKind
    text: str = ""
    output: str = ""

    @property
    def is_success(self) -> bool:
        """Return whether it counts as success."""
        return self.kind in (ResultKind.SUCCESS, ResultKind.WARNING)


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """The target of a GET.

    Args:
        scheme: `http` or `https`.
        host: an address or a name.
        path: with its query; begins with a slash.
        headers: additional headers; names may repeat.
    """

    scheme: str
    host: str
    port: int
    path: str = "/"
    headers: tuple[tuple[str, str], ...] = field(default=())

    @property
    def address(self) -> str:
        """Host and port."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL."""
        return f"{self.scheme}://{self.address}{self.path}"

    def request(self, agent: str) -> bytes:
        """Return the request as bytes."""
        names = {name.lower() for name, _ in self.headers}
        own = [("Host", self.address), ("User-Agent", agent), ("Accept", "*/*")]
        lines = [f"{name}: {value}" for name, value in own if name.lower() not in names]
        lines += [f"{name}: {value}" for name, value in self.headers if value]
        head = "\r\n".join([f"GET {self.path} HTTP/1.1", *lines, "Connection: close"])
        return f"{head}\r\n\r\n".encode()


class HttpGet:
    """A running GET, which follows redirects on its host.

    Args:
        agent: the `User-Agent`.
        timeout: real seconds for the whole request.
        done: called once with the result.
    """

    def __init__(
        self,
        clock: SimClock,
        dial: Dial,
        target: HttpTarget,
        agent: str,
        timeout: float,
        done: Callable[[HandlerResult], None],
    ) -> None:
        self._clock = clock
        self._dial = dial
        self._target = target
        self._first = target
        self._agent = agent
        self._done: Callable[[HandlerResult], None] | None = done
        self._session: ProcessSession | None = None
        self._dialing: asyncio.Future[None] | None = None
        self._data = b""
        self._is_tls = False
        self._redirects = 0
        self._timer: ScheduledCall | None = clock.call_later(
            timeout, self._on_timeout, scaled=False
        )
        self._connect()

    def cancel(self) -> None:
        """Abort without calling `done`."""
        self._done = None
        self._close()

    def _close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._dialing is not None:
            self._dialing.cancel()
            self._dialing = None
        if self._session is not None:
            self._session.output.on_output = None
            self._session.stop()
            self._session = None

    def _end(self, kind: ResultKind, text: str = "") -> None:
        done, self._done = self._done, None
        self._close()
        if done is not None:
            # Never within the constructor.
            self._clock.call_later(0, done, HandlerResult(kind, text))

    def _fail(self, why: str) -> None:
        self._end(ResultKind.FAILURE, f'Get "{self._target.url}": {why}')

    def _on_timeout(self) -> None:
        self._timer = None
        self._fail("context deadline exceeded (Client.Timeout exceeded while awaiting headers)")

    def _connect(self) -> None:
        target = self._target
        self._dialing = self._dial(
            target.host, target.port, self._on_connected, tls=target.scheme == "https"
        )

    def _on_connected(self, connection: DialResult) -> None:
        self._dialing = None
        if connection.error:
            self._fail(connection.error)
            return
        target, session = self._target, connection.session
        if session is None or self._done is None:
            return
        self._session, self._data, self._is_tls = session, b"", connection.is_tls
        if session.stdin is not None:
            plain = target.scheme == "http" or connection.is_tls
            session.stdin.send(target.request(self._agent) if plain else _TLS_HELLO)
        session.output.on_output = self._on_output
        self._on_output()

    def _on_output(self) -> None:
        session = self._session
        if session is None:
            return
        self._data += b"".join(data for _, data in session.output.drain())
        over = session.output.code is not None
        if self._target.scheme == "https" and not self._is_tls:
            self._check_tls(over)
            return
        head, separator, body = self._data.partition(b"\r\n\r\n")
        if not separator:
            head, separator, body = self._data.partition(b"\n\n")
        if not separator and not over and len(self._data) <= _MAX_HEAD:
            return
        if not self._data:
            self._fail("EOF")
            return
        lines = head.decode("latin-1").splitlines()
        version, _, rest = lines[0].partition(" ")
        code = rest[:3]
        if not version.startswith("HTTP/") or not (len(code) == 3 and code.isdigit()):
            self._fail(
                "net/http: HTTP/1.x transport connection broken: "
                f'malformed HTTP response "{lines[0]}"'
            )
            return
        if not separator:
            self._fail("unexpected EOF" if over else "server response headers exceeded the limit")
            return
        self._on_response(int(code), lines[1:], body)

    def _check_tls(self, over: bool) -> None:
        if self._data.startswith(b"HTTP/"):
            self._fail("http: server gave HTTP response to HTTPS client")
        elif self._data:
            self._fail("tls: first record does not look like a TLS handshake")
        elif over:
            self._fail("EOF")

    def _on_response(self, code: int, headers: list[str], body: bytes) -> None:
        text = body[:_MAX_BODY].decode(errors="replace")
        if code in (301, 302, 303, 307, 308):
            self._on_redirect(headers, text)
        elif 200 <= code < 400:
            self._end(ResultKind.SUCCESS, text)
        else:
            self._end(ResultKind.FAILURE, f"HTTP probe failed with statuscode: {code}")

    def _on_redirect(self, headers: list[str], text: str) -> None:
        where = next(
            (
                value.strip()
                for name, _, value in (line.partition(":") for line in headers)
                if name.strip().lower() == "location"
            ),
            "",
        )
        url = urlsplit(urljoin(self._target.url, where))
        if not where or url.hostname != self._first.host:
            self._end(ResultKind.WARNING, f"Probe terminated redirects, Response body: {text}")
            return
        self._redirects += 1
        if self._redirects >= _MAX_REDIRECTS:
            self._fail("stopped after 10 redirects")
            return
        if self._session is not None:
            self._session.output.on_output = None
            self._session.stop()
            self._session = None
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        port = url.port or (443 if url.scheme == "https" else 80)
        self._target = replace(self._target, scheme=url.scheme, port=port, path=path)
        self._connect()


class DialResult(NamedTuple):
    """The result of dialing.

    Args:
        error: Go's error text; empty if there is none.
        session: the connection; None after an error.
        is_tls: whether the session speaks TLS already; simulated programs never do.
    """

    error: str = ""
    session: ProcessSession | None = None
    is_tls: bool = False


class Dial(Protocol):
    """Connects to a host and port."""

    def __call__(
        self,
        host: str,
        port: int,
        done: Callable[[DialResult], None],
        *,
        tls: bool = False,
        http2: bool = False,
    ) -> asyncio.Future[None] | None:
        """Call `done` with the result, at once or later; never if nothing answers.

        Args:
            tls: whether to speak TLS, with real programs.
            http2: whether to speak HTTP/2, with real programs.
        """


class NamedPortError(Exception):
    """A named port that the container does not have; `str` is the kubelet's text."""


def resolve_port(port: int | str, container: Obj) -> int:
    """Return the number of a port that may be named.

    Raises:
        NamedPortError: no port of the container has the name, and it is not a number.

    Source: pkg/probe/util.go, `ResolveContainerPort`.
    """
    if isinstance(port, int):
        return port
    for container_port in container.get("ports") or ():
        if container_port.get("name") == port:
            return int(container_port["containerPort"])
    if port.isascii() and port.isdigit():
        return int(port)
    raise NamedPortError(f'strconv.Atoi: parsing "{port}": invalid syntax')


def make_dialer(worker: PodContext) -> Dial:
    """Return a function that connects as the kubelet of a pod does.

    It resolves the names of nodes only; services have none there.
    """

    def dial(
        host: str,
        port: int,
        done: Callable[[DialResult], None],
        *,
        tls: bool = False,
        http2: bool = False,
    ) -> asyncio.Future[None] | None:
        host = _resolve_host(worker, host)
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        network: Network | None
        if host == worker.pod_ip and host:
            network = worker.network
        elif _is_loopback(host) or host == worker.node.address:
            network = worker.node.network
        elif not _is_address(host):
            done(DialResult(f"dial tcp: lookup {host}: no such host"))
            return None
        else:
            network = worker.node.find_network(host)
            if network is None:
                return None
        connection = network.dial(port, tls=tls, http2=http2)
        if connection is None:
            done(DialResult(f"dial tcp {where}: connect: connection refused"))
        elif isinstance(connection, ProcessSession):
            done(DialResult(session=connection))
        else:
            return _await_connection(connection, where, done, tls=tls)
        return None

    return dial


def _await_connection(
    connection: Awaitable[ProcessSession], where: str, done: Callable[[DialResult], None], *,
    tls: bool,
) -> asyncio.Future[None]:  # fmt: skip
    """Call `done` with a connection that is being made."""

    async def connect() -> None:
        try:
            session = await connection
        except (ssl.SSLError, ConnectionResetError) as error:
            result = DialResult(_describe_tls_error(error))
        except OSError as error:
            why = _describe_connect_error(error)
            result = DialResult(f"dial tcp {where}: connect: {why}")
        else:
            result = DialResult(session=session, is_tls=tls)
        done(result)

    return asyncio.ensure_future(connect())


def _describe_connect_error(error: OSError) -> str:
    return os.strerror(error.errno).lower() if error.errno else str(error)


def _describe_tls_error(error: OSError) -> str:
    """Return Go's text for a failed TLS handshake."""
    reason = getattr(error, "reason", "") or ""
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"):
        return "http: server gave HTTP response to HTTPS client"
    if not isinstance(error, ssl.SSLError) or "EOF" in reason:
        return "EOF"
    return f"remote error: tls: {reason.lower().replace('_', ' ')}"


def _resolve_host(worker: PodContext, name: str) -> str:
    if name.lower() == "localhost":
        return "127.0.0.1"
    node = worker.node.peers.get(name.lower())
    return node.address if node is not None else name


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    return _is_address(host) and ipaddress.ip_address(host).is_loopback


class Handler(Protocol):
    """A running handler."""

    def cancel(self) -> None:
        """Abort the handler."""


class _DecidedHandler:
    """A handler whose result is already scheduled."""

    def __init__(self, timer: ScheduledCall) -> None:
        self._timer = timer

    def cancel(self) -> None:
        self._timer.cancel()


def _schedule_result(
    clock: SimClock,
    done: Callable[[HandlerResult], None],
    outcome: HandlerResult,
    after: float = 0.0,
) -> Handler:
    return _DecidedHandler(clock.call_later(after, done, outcome, scaled=False))


class ExecHandler:
    """A command that runs in a container.

    Args:
        timeout: real seconds until it is killed; 0 for none.
        done: called once with the result.

    Source: pkg/probe/exec/exec.go; kuberuntime_container.go, `RunInContainer`.
    """

    def __init__(
        self,
        clock: SimClock,
        container: Container,
        argv: list[str],
        timeout: float,
        done: Callable[[HandlerResult], None],
    ) -> None:
        self._clock = clock
        self._argv = argv
        self._timeout = timeout
        self._done: Callable[[HandlerResult], None] | None = done
        self._timer: ScheduledCall | None = None
        self._written = {1: b"", 2: b""}
        self._session: ProcessSession | None = None
        try:
            self._session = container.run(argv, stdin=False, tty=False)
        except StartError as error:
            text = f"rpc error: code = Unknown desc = {error}"
            self._end(HandlerResult(ResultKind.ERROR, text))
            return
        if timeout:
            self._timer = clock.call_later(timeout, self._on_timeout, scaled=False)
        self._session.output.on_output = self._on_output
        self._on_output()

    def cancel(self) -> None:
        """Kill the command without calling `done`."""
        self._done = None
        self._close()

    def _close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._session is not None:
            self._session.output.on_output = None
            self._session.stop()

    def _on_output(self) -> None:
        if self._session is None or self._done is None:
            return
        for stream, data in self._session.output.drain():
            self._written[stream] = (self._written[stream] + data)[:_MAX_OUTPUT]
        code = self._session.output.code
        if code is None:
            return
        if failure := self._session.output.failure:
            text = f"rpc error: code = Unknown desc = {failure}"
            self._end(HandlerResult(ResultKind.ERROR, text))
            return
        out, err = (self._written[stream].decode(errors="replace") for stream in (1, 2))
        if code == 0:
            self._end(HandlerResult(ResultKind.SUCCESS, "", out + err))
        else:
            text = f"command '{' '.join(self._argv)}' exited with {code}: {err}"
            self._end(HandlerResult(ResultKind.FAILURE, text, out + err))

    def _on_timeout(self) -> None:
        self._timer = None
        words = " ".join(self._argv)
        text = f'command timed out: "{words}" timed out after {self._timeout:g}s'
        self._end(HandlerResult(ResultKind.FAILURE, text, text))

    def _end(self, outcome: HandlerResult) -> None:
        done, self._done = self._done, None
        self._close()
        if done is not None:
            self._clock.call_later(0, done, outcome)


def _make_target(action: Obj, container: Obj, pod_ip: str) -> HttpTarget:
    """Return the target of a probe's or hook's GET.

    Raises:
        NamedPortError: the named port does not exist.
    """
    path = quote(action.get("path") or "/", safe=_SAFE_URL_CHARACTERS)
    return HttpTarget(
        (action.get("scheme") or "HTTP").lower(),
        action.get("host") or pod_ip,
        resolve_port(action["port"], container),
        path if path.startswith("/") else f"/{path}",
        tuple(
            (header["name"], header.get("value") or "")
            for header in action.get("httpHeaders") or ()
        ),
    )


def _make_user_agent(worker: PodContext, word: str) -> str:
    version = worker.cluster.kinds.version
    return f"kube-{word}/{version.get('major', '1')}.{version.get('minor', '')}"


class _GrpcHandler:
    """A check of a service's health, which connects again until it is answered.

    Args:
        timeout: real seconds for connection and answer.
        done: called once with the result.

    Source: pkg/probe/grpc/grpc.go, `Probe`.
    """

    def __init__(
        self,
        worker: PodContext,
        action: Obj,
        timeout: float,
        done: Callable[[HandlerResult], None],
    ) -> None:
        self._clock = worker.node.clock
        self._dial = make_dialer(worker)
        self._target = worker.pod_ip, int(action["port"])
        self._check = HealthCheck(
            f"{worker.pod_ip}:{action['port']}", action.get("service") or "",
            _make_user_agent(worker, "probe"),
        )  # fmt: skip
        self._done: Callable[[HandlerResult], None] | None = done
        self._dialing: asyncio.Future[None] | None = None
        self._checking: asyncio.Future[None] | None = None
        self._retry: ScheduledCall | None = None
        self._timer = self._clock.call_later(timeout, self._on_timeout, timeout, scaled=False)
        self._connect()

    def cancel(self) -> None:
        """Abort without calling `done`."""
        self._done = None
        self._timer.cancel()
        for running in (self._dialing, self._checking, self._retry):
            if running is not None:
                running.cancel()

    def _connect(self) -> None:
        self._dialing = self._dial(*self._target, self._on_connected, http2=True)

    def _on_connected(self, connection: DialResult) -> None:
        if self._done is None:
            if connection.session is not None:
                connection.session.stop()
        elif connection.session is None:
            self._connect_later()
        else:
            self._checking = asyncio.ensure_future(self._run_check(connection.session))

    def _connect_later(self) -> None:
        self._retry = self._clock.call_later(RECONNECT_SECONDS, self._connect, scaled=False)

    async def _run_check(self, session: ProcessSession) -> None:
        why = await self._check.run(session)
        if why is None:
            self._connect_later()
        else:
            self._end(why)

    def _on_timeout(self, timeout: float) -> None:
        self._end(self._check.describe_timeout(timeout))

    def _end(self, why: str) -> None:
        done = self._done
        self.cancel()
        if done is not None:
            kind = ResultKind.FAILURE if why else ResultKind.SUCCESS
            done(HandlerResult(kind, why or "service healthy"))


class _TcpHandler:
    """A connection that is closed at once.

    Args:
        timeout: real seconds for the connection.
        done: called once with the result.

    Source: pkg/probe/tcp/tcp.go, `DoTCPProbe`.
    """

    def __init__(
        self,
        clock: SimClock,
        dial: Dial,
        host: str,
        port: int,
        timeout: float,
        done: Callable[[HandlerResult], None],
    ) -> None:
        self._clock = clock
        self._done: Callable[[HandlerResult], None] | None = done
        self._timer = clock.call_later(timeout, self._on_timeout, host, port, scaled=False)
        self._dialing = dial(host, port, self._on_connected)

    def cancel(self) -> None:
        """Give up without calling `done`."""
        self._done = None
        self._timer.cancel()
        if self._dialing is not None:
            self._dialing.cancel()

    def _on_connected(self, connection: DialResult) -> None:
        if connection.session is not None:
            connection.session.stop()
        kind = ResultKind.FAILURE if connection.error else ResultKind.SUCCESS
        self._end(HandlerResult(kind, connection.error))

    def _on_timeout(self, host: str, port: int) -> None:
        if self._dialing is not None:
            self._dialing.cancel()
        self._end(HandlerResult(ResultKind.FAILURE, f"dial tcp {host}:{port}: i/o timeout"))

    def _end(self, outcome: HandlerResult) -> None:
        done, self._done = self._done, None
        self._timer.cancel()
        if done is not None:
            # Never within the constructor.
            self._clock.call_later(0, done, outcome)


class _ContainerRequest:
    """A request to a container, which its runtime sends to the program or answers.

    Args:
        send: sends it.
        assume: lets it succeed instead.
    """

    def __init__(
        self, container: Container, send: Callable[[], Handler], assume: Callable[[], Handler]
    ) -> None:
        self._send = send
        self._assume = assume
        self._handler: Handler | None = None
        container.answer(self)

    def send(self) -> None:
        self._handler = self._send()

    def assume_success(self) -> None:
        self._handler = self._assume()

    def cancel(self) -> None:
        if self._handler is not None:
            self._handler.cancel()


def start_probe(
    worker: PodContext,
    spec: Obj,
    container: Container,
    probe: Obj,
    done: Callable[[HandlerResult], None],
) -> Handler:
    """Start the handler of a probe, unless the container's runtime lets it succeed."""
    return _ContainerRequest(
        container,
        lambda: _send_probe(worker, spec, container, probe, done),
        lambda: _schedule_result(worker.node.clock, done, HandlerResult(ResultKind.SUCCESS)),
    )


def _send_probe(
    worker: PodContext,
    spec: Obj,
    container: Container,
    probe: Obj,
    done: Callable[[HandlerResult], None],
) -> Handler:
    """Start the handler of a probe.

    Source: prober/prober.go, `runProbe`.
    """
    clock = worker.node.clock
    timeout = float(probe.get("timeoutSeconds") or 1)
    if "exec" in probe:

        def ended(outcome: HandlerResult) -> None:
            # Probe events show the command's output, not its exit code.
            text = outcome.text if outcome.kind is ResultKind.ERROR else outcome.output
            done(HandlerResult(outcome.kind, text))

        return ExecHandler(clock, container, probe["exec"].get("command") or [], timeout, ended)
    dial = make_dialer(worker)
    try:
        if "httpGet" in probe:
            target = _make_target(probe["httpGet"], spec, worker.pod_ip)
            return HttpGet(clock, dial, target, _make_user_agent(worker, "probe"), timeout, done)
        if "tcpSocket" in probe:
            action = probe["tcpSocket"]
            host = action.get("host") or worker.pod_ip
            port = resolve_port(action["port"], spec)
            return _TcpHandler(clock, dial, host, port, timeout, done)
    except NamedPortError as error:
        return _schedule_result(clock, done, HandlerResult(ResultKind.ERROR, str(error)))
    return _GrpcHandler(worker, probe["grpc"], timeout, done)


def _reaches_pod(worker: PodContext, handler: Obj) -> bool:
    """Return whether a hook is a request to a pod or node of the cluster."""
    if "httpGet" not in handler:
        return False
    host = handler["httpGet"].get("host") or worker.pod_ip
    return host == worker.pod_ip or worker.node.find_network(host) is not None


def start_hook(
    worker: PodContext,
    spec: Obj,
    container: Container,
    handler: Obj,
    done: Callable[[HandlerResult], None],
) -> Handler:
    """Start a lifecycle hook; the text of its result goes into the container's status.

    Any response to an HTTP hook is a success.

    Source: lifecycle/handlers.go, `handlerRunner.Run`.
    """
    success = HandlerResult(ResultKind.SUCCESS)
    if "sleep" in handler:
        return _schedule_result(
            worker.node.clock, done, success, float(handler["sleep"]["seconds"])
        )

    def assume_success() -> Handler:
        if _reaches_pod(worker, handler):
            # Another container may see the request.
            return _send_hook(worker, spec, container, handler, lambda _: done(success))
        return _schedule_result(worker.node.clock, done, success)

    return _ContainerRequest(
        container, lambda: _send_hook(worker, spec, container, handler, done), assume_success
    )


def _send_hook(
    worker: PodContext,
    spec: Obj,
    container: Container,
    handler: Obj,
    done: Callable[[HandlerResult], None],
) -> Handler:
    clock, pod = worker.node.clock, worker.pod
    metadata = pod["metadata"]
    where = f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"
    of = f'for Container "{spec["name"]}" in Pod "{where}" failed - error:'
    if "exec" in handler:
        argv = handler["exec"].get("command") or []

        def ended(outcome: HandlerResult) -> None:
            if not outcome.is_success:
                written = json.dumps(outcome.output, ensure_ascii=False)
                text = f"Exec lifecycle hook ([{' '.join(argv)}]) {of} {outcome.text}, "
                outcome = HandlerResult(outcome.kind, f"{text}message: {written}")
            done(outcome)

        return ExecHandler(clock, container, argv, 0, ended)
    if "httpGet" in handler:
        action = handler["httpGet"]

        def answered(outcome: HandlerResult) -> None:
            is_answered = outcome.is_success or outcome.text.startswith("HTTP probe failed")
            if not is_answered:
                text = f"HTTP lifecycle hook ({action.get('path', '')}) {of} {outcome.text}"
                done(HandlerResult(outcome.kind, text))
            else:
                done(HandlerResult(ResultKind.SUCCESS))

        try:
            target = _make_target(action, spec, worker.pod_ip)
        except NamedPortError as error:
            return _schedule_result(clock, answered, HandlerResult(ResultKind.ERROR, str(error)))
        agent = _make_user_agent(worker, "lifecycle")
        return HttpGet(clock, make_dialer(worker), target, agent, _HOOK_TIMEOUT, answered)
    text = "Cannot run handler: invalid handler"
    return _schedule_result(clock, done, HandlerResult(ResultKind.ERROR, text))
