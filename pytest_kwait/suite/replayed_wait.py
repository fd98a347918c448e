"""A wait that is run again on a recording, in virtual time.

The wait polls a replay of the recording: each of its pauses moves the recording on by as much, and
takes no time. Its verdicts are the same each time.
"""

from __future__ import annotations

import ast
import asyncio
import difflib
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.times import format_duration, to_seconds
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clusters.provider import connect
from pytest_kwait.engine.active_waits import ACTIVE_WAITS, WaitObserver
from pytest_kwait.engine.options import TIMEOUTS
from pytest_kwait.errors import InvalidArgument, KwaitError, WaitFailed
from pytest_kwait.framework.registry import WAITS, Wait
from pytest_kwait.simulator import replay_recording
from pytest_kwait.temp_dir import TempDir
from pytest_kwait.worker import Worker

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Mapping

    from kubernetes.client import ApiClient

    from pytest_kwait.engine.active_waits import ActiveWait
    from pytest_kwait.simulator.protocol.recording.files import Recording
    from pytest_kwait.simulator.protocol.replay import ReplayedCluster, ReplayedServer

_GRAIN = 0.02
"""Recorded seconds between two looks."""

_MAX_LOOKS = 2000
"""Looks at a long recording, which are then less frequent."""

_SPARE = 3600.0
"""Seconds by which the limit of the wait exceeds its end: its requests take real time."""

_ANSWER_SECONDS = 30.0
_FORM = "use a call with plain values, as 'wait_for_pod_ready(\"web\", grace=120)'"


@dataclass(frozen=True, slots=True)
class ReplayedWait:
    """A call of a wait.

    Args:
        args: its arguments after client and namespace.
        options: its keyword arguments.
        namespace: the namespace; None for the test's.
        limit: its limit in seconds.
    """

    wait: Wait
    args: tuple[Any, ...]
    options: Mapping[str, Any]
    namespace: str | None
    limit: float


def parse_wait(text: str, what: str) -> ReplayedWait:
    """Parse a call of a wait, as `wait_for_pod_ready("web", grace=120)`.

    Args:
        what: the name of the argument, for messages.

    Raises:
        InvalidArgument: it is no such call, or an argument of the wait is invalid.
    """
    try:
        call = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        raise InvalidArgument(what, text, _FORM) from None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise InvalidArgument(what, text, _FORM)
    wait = WAITS.get(call.func.id)
    if wait is not None and not wait.bound:
        raise InvalidArgument(
            what, text, f"{wait.name} is about informers, which have no recording"
        )
    if wait is None:
        near = difflib.get_close_matches(call.func.id, WAITS, 1)
        hint = f"did you mean {near[0]}?" if near else "docs/waits.md lists the waits"
        raise InvalidArgument(what, text, f"there is no wait {call.func.id}; {hint}")
    try:
        args = tuple(map(ast.literal_eval, call.args))
        options = {
            keyword.arg: ast.literal_eval(keyword.value)
            for keyword in call.keywords
            if keyword.arg is not None
        }
    except (ValueError, TypeError):
        raise InvalidArgument(what, text, _FORM) from None
    for name in ("mode", "poll"):
        if name in options:
            raise InvalidArgument(what, text, f"leave {name} out: a recording is polled")
    namespace = options.pop("namespace", None)
    wait.check(*args, **options)
    timeout_option = options.pop("timeout", None)
    seconds = (
        TIMEOUTS[wait.timeout].seconds if timeout_option is None else to_seconds(timeout_option)
    )
    return ReplayedWait(wait, args, options, namespace, seconds)


class _LimitReachedError(KwaitError):
    """The recording, or the limit of the wait, has ended."""


class _VirtualClock:
    """The clock of the wait: pauses move the recording on.

    Args:
        loop: the event loop of its server.
        end: the last time.
    """

    def __init__(
        self, recorded: ReplayedCluster, loop: asyncio.AbstractEventLoop, end: float
    ) -> None:
        self._recorded = recorded
        self._loop = loop
        self._end = end
        self._now = recorded.position

    def monotonic(self) -> float:
        """Seconds since the start of the test."""
        return self._now

    def time(self) -> float:
        """Seconds since the epoch, as it was then."""
        return self._recorded.recording.header.started + self._now

    def sleep(self, seconds: float) -> None:
        """Move on by `seconds`; once more at the end for a last look.

        Raises:
            _LimitReachedError: it had ended before.
        """
        if seconds <= 0:
            return
        if self._now >= self._end:
            raise _LimitReachedError("the end of the recording is reached")
        self._now = min(self._now + seconds, self._end)
        asyncio.run_coroutine_threadsafe(self._advance(), self._loop).result(_ANSWER_SECONDS)

    def wait(self, event: threading.Event, timeout: float | None = None) -> bool:
        """Move on by `timeout`, unless `event` is set; return whether it is."""
        if not event.is_set():
            self.sleep(self._end - self._now if timeout is None else timeout)
        return event.is_set()

    async def _advance(self) -> None:
        self._recorded.advance(self._now)


class _Verdicts(WaitObserver):
    """Observes the outermost wait."""

    def __init__(self) -> None:
        self.wait: ActiveWait | None = None

    def on_start(self, wait: ActiveWait) -> None:
        """Keep the first wait; others are parts of it."""
        self.wait = self.wait or wait


def run_wait(recording: Recording, call: ReplayedWait, at: float) -> tuple[bool, list[str]]:
    """Run a wait on a recording.

    Args:
        at: when it begins, in seconds since the start of the test.

    Returns:
        whether it was met, and its verdicts as lines.

    Raises:
        InvalidArgument: the recording has no namespace and the call none.
        ApiError: the wait asks for what is not recorded.
    """
    namespace = call.namespace or next(iter(recording.header.namespaces), None)
    if call.wait.namespaced and namespace is None:
        raise InvalidArgument("namespace", None, "name one, as the recording has none of a test")
    recorded, server = replay_recording(recording)
    recorded.advance(at)
    # A wait resolves its kinds once.
    recorded.serve_later_kinds()
    end = min(at + call.limit, recording.end)
    verdicts = _Verdicts()
    outcome, reason = "met", ""
    with _served(server) as (client, loop):
        session = ApiSession.of(client)
        session.clock = clock = _VirtualClock(recorded, loop, end)
        first = [client, namespace] if call.wait.namespaced else [client]
        poll = max(_GRAIN, (end - at) / _MAX_LOOKS)
        ACTIVE_WAITS.add(verdicts)
        try:
            call.wait.function(
                *first,
                *call.args,
                **call.options,
                timeout=call.limit + _SPARE,
                mode="poll",
                poll=poll,
            )
        except WaitFailed as error:
            outcome, reason = "failed early", str(error.args[0])
        except _LimitReachedError:
            outcome = "not met"
            reason = (
                f"its limit of {format_duration(call.limit)} ends"
                if end < recording.end
                else "the recording ends"
            )
        finally:
            ACTIVE_WAITS.remove(verdicts)
        last = clock.monotonic()
    lines = list(_format_verdicts(verdicts.wait, at))
    lines.append(f"{last:9.3f}s  {outcome}" + (f": {reason}" if reason else ""))
    return outcome == "met", lines


def _format_verdicts(wait: ActiveWait | None, at: float) -> Iterator[str]:
    if wait is None:
        return
    yield f"{at:9.3f}s  wait for {wait.subject} to {wait.goal}"
    for change in wait.timeline.first:
        yield f"{at + change.at:9.3f}s    {change.text}"
    if wait.timeline.left_out:
        yield f"{'':10}    ({wait.timeline.left_out} more changes)"
    for change in wait.timeline.latest:
        yield f"{at + change.at:9.3f}s    {change.text}"


@contextmanager
def _served(server: ReplayedServer) -> Iterator[tuple[ApiClient, asyncio.AbstractEventLoop]]:
    """Serve a replayed cluster in a thread; yield a client and the server's event loop."""
    loop = asyncio.new_event_loop()
    worker = Worker("kwait replay", loop.run_forever)
    worker.start()
    folder = TempDir("replay-")
    try:
        start = server.start(folder.path / "kubeconfig")
        asyncio.run_coroutine_threadsafe(start, loop).result(_ANSWER_SECONDS)
        client = connect(folder.path / "kubeconfig").client()
        try:
            yield client, loop
        finally:
            client.close()  # type: ignore[no-untyped-call] # the official client has no types here
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(_ANSWER_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        worker.join(_ANSWER_SECONDS)
        loop.close()
        folder.remove()
