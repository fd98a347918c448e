"""What a kubelet does in or towards a container for its probes and hooks: commands and requests.

Each action is under way until it calls its `done`; the time-outs stand in manifests, so they are
real seconds.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote

from pytest_kwait.simulator.kubelet.dialing import NamedPortError, make_dialer, resolve_port
from pytest_kwait.simulator.kubelet.http_get import HttpGet, HttpTarget
from pytest_kwait.simulator.kubelet.outcomes import HandlerResult, ResultKind
from pytest_kwait.simulator.kubelet_api import StartError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.busybox.os.streams import Session
    from pytest_kwait.simulator.clock import SimClock, Timer
    from pytest_kwait.simulator.kubelet.pod_worker import PodWorker
    from pytest_kwait.simulator.kubelet.runtime.containers import Container
    from pytest_kwait.simulator.objects import Obj

__all__ = ["ExecHandler", "Handler", "start_hook", "start_probe"]

# Seconds that a hook's request may take; source: kubelet.go, `NewMainKubelet`, the hooks' client.
_HOOK_TIMEOUT = 30.0
_MAX_OUTPUT = 10 * 1024
_SAFE_URL_CHARACTERS = "/?&=%:@!$'()*+,;~-._[]"


class Handler(Protocol):
    """Something under way."""

    def cancel(self) -> None:
        """Give it up."""
        ...


class _DecidedHandler:
    """What is decided already, and told in one of the next turns."""

    def __init__(self, timer: Timer) -> None:
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
    """A command under way in a container.

    Args:
        clock: the cluster's time.
        container: where it runs.
        argv: the command.
        timeout: real seconds until it is killed; 0 is none.
        done: told once how it went.

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
        self._timer: Timer | None = None
        self._written = {1: b"", 2: b""}
        self._session: Session | None = None
        try:
            self._session = container.run(argv, stdin=False, tty=False)
        except StartError as error:
            text = f"rpc error: code = Unknown desc = {error}"
            self._end(HandlerResult(ResultKind.ERROR, text))
            return
        if timeout:
            self._timer = clock.call_later(timeout, self._too_late, scaled=False)
        self._session.outlet.on_news = self._news
        self._news()

    def cancel(self) -> None:
        """Give up; the command is killed and `done` is not called any more."""
        self._done = None
        self._close()

    def _close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._session is not None:
            self._session.outlet.on_news = None
            self._session.stop()

    def _news(self) -> None:
        if self._session is None or self._done is None:
            return
        for stream, data in self._session.outlet.drain():
            self._written[stream] = (self._written[stream] + data)[:_MAX_OUTPUT]
        code = self._session.outlet.code
        if code is None:
            return
        out, err = (self._written[stream].decode(errors="replace") for stream in (1, 2))
        if code == 0:
            self._end(HandlerResult(ResultKind.SUCCESS, "", out + err))
        else:
            text = f"command '{' '.join(self._argv)}' exited with {code}: {err}"
            self._end(HandlerResult(ResultKind.FAILURE, text, out + err))

    def _too_late(self) -> None:
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
    """Where the GET of a probe or a hook goes.

    Raises:
        PortError: its port is a name that nobody has.
    """
    path = quote(action.get("path") or "/", safe=_SAFE_URL_CHARACTERS)
    return HttpTarget(
        (action.get("scheme") or "HTTP").lower(),
        action.get("host") or pod_ip,
        resolve_port(action["port"], container),
        path if path.startswith("/") else f"/{path}",
        tuple((one["name"], one.get("value") or "") for one in action.get("httpHeaders") or ()),
    )


def _make_user_agent(worker: PodWorker, word: str) -> str:
    version = worker.api.kinds.version
    return f"kube-{word}/{version.get('major', '1')}.{version.get('minor', '')}"


def start_probe(
    worker: PodWorker,
    spec: Obj,
    container: Container,
    probe: Obj,
    done: Callable[[HandlerResult], None],
) -> Handler:
    """Begin a probe.

    What is asked of a container whose program is not simulated is taken to succeed.

    Source: prober/prober.go, `runProbe`.
    """
    clock = worker.node.clock
    timeout = float(probe.get("timeoutSeconds") or 1)
    if container.assumed:
        return _schedule_result(clock, done, HandlerResult(ResultKind.SUCCESS))
    if "exec" in probe:

        def ended(outcome: HandlerResult) -> None:
            # A probe tells what its command wrote, not how it ended.
            told = outcome.text if outcome.verdict is ResultKind.ERROR else outcome.output
            done(HandlerResult(outcome.verdict, told))

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
            trouble, session = dial(host, port)
            if session is not None:
                session.stop()
                return _schedule_result(clock, done, HandlerResult(ResultKind.SUCCESS))
            if trouble:
                return _schedule_result(clock, done, HandlerResult(ResultKind.FAILURE, trouble))
            late = HandlerResult(ResultKind.FAILURE, f"dial tcp {host}:{port}: i/o timeout")
            return _schedule_result(clock, done, late, timeout)
    except NamedPortError as error:
        return _schedule_result(clock, done, HandlerResult(ResultKind.ERROR, str(error)))
    # Nothing that is simulated speaks HTTP/2: the connection is tried until the time is up.
    where = f"{worker.pod_ip}:{probe['grpc']['port']}"
    text = (
        f'timeout: failed to connect service "{where}" within {timeout:g}s: '
        "context deadline exceeded"
    )
    return _schedule_result(clock, done, HandlerResult(ResultKind.FAILURE, text), timeout)


def start_hook(
    worker: PodWorker,
    spec: Obj,
    container: Container,
    handler: Obj,
    done: Callable[[HandlerResult], None],
) -> Handler:
    """Begin a lifecycle hook; its outcome's text is what the container's status says of it.

    Any answer to a request is a good one.

    Source: lifecycle/handlers.go, `handlerRunner.Run`.
    """
    clock, pod = worker.node.clock, worker.pod
    metadata = pod["metadata"]
    where = f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"
    of = f'for Container "{spec["name"]}" in Pod "{where}" failed - error:'
    if "sleep" in handler:
        return _schedule_result(
            clock, done, HandlerResult(ResultKind.SUCCESS), float(handler["sleep"]["seconds"])
        )
    if container.assumed:
        return _schedule_result(clock, done, HandlerResult(ResultKind.SUCCESS))
    if "exec" in handler:
        argv = handler["exec"].get("command") or []

        def ended(outcome: HandlerResult) -> None:
            if not outcome.good:
                written = json.dumps(outcome.output, ensure_ascii=False)
                text = f"Exec lifecycle hook ([{' '.join(argv)}]) {of} {outcome.text}, "
                outcome = HandlerResult(outcome.verdict, f"{text}message: {written}")
            done(outcome)

        return ExecHandler(clock, container, argv, 0, ended)
    if "httpGet" in handler:
        action = handler["httpGet"]

        def answered(outcome: HandlerResult) -> None:
            if not outcome.good and not outcome.text.startswith("HTTP probe failed"):
                text = f"HTTP lifecycle hook ({action.get('path', '')}) {of} {outcome.text}"
                done(HandlerResult(outcome.verdict, text))
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
