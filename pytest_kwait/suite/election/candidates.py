"""Candidates for a Lease: processes that can be paused, killed and cut off.

Each candidate reaches the server through a local TCP proxy. While it is cut, data is held
back and delivered once it is joined again.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.times import Duration, format_duration, to_seconds
from pytest_kwait.client.resource import LEASES
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import SYSTEM_CLOCK, Deadline
from pytest_kwait.engine.active_waits import ACTIVE_WAITS, ActiveWait
from pytest_kwait.engine.failure.wait_report import Timeline
from pytest_kwait.engine.options import check_count
from pytest_kwait.engine.retry import request_with_retry
from pytest_kwait.errors import ApiError, InvalidArgument, KwaitError, WaitTimeout
from pytest_kwait.leaderelection import MAX_LEASE_SECONDS, LeaderElector, LeaseLock
from pytest_kwait.suite.election.candidate_main import server_endpoint
from pytest_kwait.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kubernetes.client import ApiClient

    from pytest_kwait.client.session import TimeBudget
    from pytest_kwait.clusters.cluster import Cluster

PROGRAM = (sys.executable, "-P", "-m", "pytest_kwait.suite.election.candidate_main")
"""The program of a candidate; its module describes the argument and the output."""

_CHUNK_SIZE = 65536
_DRAIN_TIMEOUT = 5.0
"""Maximum seconds for reading the last lines of a process."""

_MESSAGE_PREFIXES = ('{"led"', '{"lost"', '{"sees"')
"""The prefix of lines that are not log lines."""

_MAX_OUTPUT_LINES = 20
"""Maximum number of kept log lines of a candidate."""

_STOP_TIMEOUT = 5.0
"""Seconds for candidates to end gracefully."""

_MIN_TIMEOUT = 0.1
"""Seconds to wait for a leader if a test has no time left."""

_LEADER_TIMEOUT = 60.0
"""Seconds to wait for a leader, including process starts and the expiry of a lease."""


class CuttableProxy:
    """TCP proxy from a local port to a server that can be cut.

    While it is cut, connections are accepted but stay silent, as in a network partition; clients
    notice only by timeouts.

    Args:
        host: the server's name or address.
    """

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._passing = threading.Event()
        self._passing.set()
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._closed = False
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        """The local port."""
        threading.Thread(target=self._accept, name="kwait-relay", daemon=True).start()

    def cut(self) -> None:
        """Stop forwarding data."""
        self._passing.clear()

    def join(self) -> None:
        """Resume forwarding, starting with the data held back."""
        self._passing.set()

    def close(self) -> None:
        """Close all connections and the listening port."""
        with self._lock:
            self._closed = True
            sockets = [*self._sockets, self._listening]
        for connection in sockets:
            with contextlib.suppress(OSError):  # already disconnected
                connection.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._passing.set()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                if self._closed:
                    return
                continue
            threading.Thread(
                target=self._connect, args=(near,), name="kwait-relay", daemon=True
            ).start()

    def _connect(self, near: socket.socket) -> None:
        with near:
            self._passing.wait()
            try:
                far = socket.create_connection(self._server)
            except OSError:
                return
            with far, self._entered(near, far) as entered:
                if not entered:
                    return
                back = threading.Thread(
                    target=self._pass, args=(far, near), name="kwait-relay", daemon=True
                )
                back.start()
                self._pass(near, far)
                back.join()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):  # either end may break at any time
            while data := source.recv(_CHUNK_SIZE):
                self._passing.wait()
                target.sendall(data)
        for connection in (source, target):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    @contextlib.contextmanager
    def _entered(self, *sockets: socket.socket) -> Iterator[bool]:
        with self._lock:
            open_still = not self._closed
            self._sockets.update(sockets)
        try:
            yield open_still
        finally:
            with self._lock:
                self._sockets.difference_update(sockets)


@dataclass(frozen=True, slots=True)
class LeaderTerm:
    """One term of leadership, in seconds of the monotonic clock shared by all processes.

    Args:
        identity: the leader.
        started: when it first acted as leader.
        until: when its lease would have expired without another renewal.
        last_act: when it last acted as leader.
        ended: when it lost the lease, stopped, was killed or expired; None while it lasts.
    """

    identity: str
    started: float
    until: float
    last_act: float
    ended: float | None = None


class Candidate:
    """One candidate process.

    A leader acts every 50 ms: it checks with its context that it still leads, and notes the time.

    Args:
        identity: its name in the Lease.
        configuration: the configuration of all candidates.
        client: the client for the server; each candidate connects through its own proxy.
        changed: notified of every change.
    """

    def __init__(
        self,
        identity: str,
        configuration: Mapping[str, Any],
        client: ApiClient,
        changed: threading.Condition,
    ) -> None:
        self.identity = identity
        """Its name in the Lease."""
        self.output: deque[str] = deque(maxlen=_MAX_OUTPUT_LINES)
        """The last lines of its log, mostly errors."""
        self.acts: list[float] = []
        """The times of its acts as leader, in seconds of the monotonic clock."""
        self.seen: list[str] = []
        """The leaders it has observed, in order; an empty name for no leader."""
        self._changed = changed
        self._terms: list[LeaderTerm] = []
        self._paused = self._cut = self._stopping = False
        self._killed_at: float | None = None
        self._relay = CuttableProxy(*server_endpoint(client.configuration))
        arguments = json.dumps({**configuration, "identity": identity, "port": self._relay.port})
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own module and checked values
                [*PROGRAM, arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                # Ctrl-C does not reach it. In our session the kernel wakes and ends it if this
                # process dies while it is paused.
                process_group=0,
            )
        except OSError:
            self._relay.close()
            raise
        self._listener = Worker(identity, self._read_output)
        self._listener.start()

    def __repr__(self) -> str:
        return f"<Candidate {self}>"

    def __str__(self) -> str:
        return f"{self.identity} {self._state()}"

    @property
    def pid(self) -> int:
        """The id of its process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Return whether its process runs, paused or not."""
        return self._process.poll() is None

    @property
    def leads(self) -> bool:
        """Return whether its last noted lease has not expired."""
        with self._changed:
            term = self._terms[-1] if self._terms else None
            return (
                term is not None
                and term.ended is None
                and self._killed_at is None
                and SYSTEM_CLOCK.monotonic() < term.until
            )

    @property
    def terms(self) -> list[LeaderTerm]:
        """Its terms so far."""
        with self._changed:
            return list(self._terms)

    def pause(self) -> None:
        """Pause its process (SIGSTOP), like a hanging machine.

        Raises:
            KwaitError: it has ended.
        """
        self._signal(signal.SIGSTOP)
        self._paused = True

    def resume(self) -> None:
        """Resume its process (SIGCONT).

        Raises:
            KwaitError: it has ended.
        """
        self._paused = False
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill its process (SIGKILL) without releasing the lease; return when it has ended.

        Raises:
            KwaitError: it has ended already.
        """
        self._signal(signal.SIGKILL)
        self._end()

    def cut_off(self) -> None:
        """Cut its connection to the server; connections stay open and silent."""
        self._cut = True
        self._relay.cut()

    def reconnect(self) -> None:
        """Reconnect it to the server, delivering the data held back first."""
        self._cut = False
        self._relay.join()

    def stop(self, timeout: float = 10.0) -> None:
        """Stop it gracefully and wait for its end; a leader releases the lease if configured.

        A candidate that is paused, cut off, or too slow is killed.

        Args:
            timeout: maximum seconds for a graceful end.
        """
        self.begin_stop()
        self.end_stop(Deadline.after(timeout))

    def begin_stop(self) -> None:
        """Request its end."""
        if self._paused or self._cut:
            self._process.kill()
        self._stopping = True
        if self._process.stdin is not None and not self._process.stdin.closed:
            try:
                self._process.stdin.write(b"stop\n")
                self._process.stdin.flush()
            except OSError:  # it has ended
                return

    def end_stop(self, deadline: Deadline) -> None:
        """Wait for its end; kill it if it does not end by itself."""
        try:
            self._process.wait(deadline.remaining)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._end()

    def drain_output(self) -> None:
        """Wait until the output of an ended process has been read."""
        if not self.alive:
            self._listener.join(_DRAIN_TIMEOUT)

    def _signal(self, number: signal.Signals) -> None:
        if not self.alive or self._killed_at is not None:
            raise KwaitError(f"{self} already")
        if number is signal.SIGKILL:
            self._killed_at = SYSTEM_CLOCK.monotonic()
        self._process.send_signal(number)

    def _end(self) -> None:
        """Release the resources of a process that is ending."""
        self._process.wait()
        self._listener.join()
        self._relay.close()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None and not pipe.closed:
                try:
                    pipe.close()
                except OSError:  # the remaining input has no reader
                    continue
        at = SYSTEM_CLOCK.monotonic() if self._killed_at is None else self._killed_at
        with self._changed:
            self._end_term(at)
            self._changed.notify_all()

    def _state(self) -> str:
        if self._killed_at is not None:
            return "was killed"
        status = self._process.poll()
        if status is not None:
            return "was stopped" if self._stopping else f"has ended with status {status}"
        doing = "leads" if self.leads else "competes"
        states = ["paused"] * self._paused + ["cut off"] * self._cut
        return f"{doing} ({', '.join(states)})" if states else doing

    def _read_output(self) -> None:
        stream = self._process.stdout
        for line in stream or ():
            text = line.decode(errors="replace").rstrip()
            with self._changed:
                if text.startswith(_MESSAGE_PREFIXES):
                    self._handle_message(json.loads(text))
                elif text:
                    self.output.append(text)
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def _handle_message(self, facts: Mapping[str, Any]) -> None:
        if "sees" in facts:
            self.seen.append(facts["sees"])
        elif "lost" in facts:
            self._end_term(facts["lost"])
        else:
            self._record_act(facts["led"], facts["until"])

    def _record_act(self, at: float, until: float) -> None:
        self.acts.append(at)
        last = self._terms[-1] if self._terms else None
        if last is None or last.ended is not None:
            self._terms.append(LeaderTerm(self.identity, at, until, at))
        else:
            self._terms[-1] = LeaderTerm(self.identity, last.started, until, at)

    def _end_term(self, at: float) -> None:
        last = self._terms[-1] if self._terms else None
        if last is not None and last.ended is None:
            ended = max(min(at, last.until), last.last_act)
            self._terms[-1] = LeaderTerm(
                self.identity, last.started, last.until, last.last_act, ended
            )


class Candidates:
    """A leader election among processes of this machine.

    A leader does nothing but note that it leads. A candidate that loses its leadership competes
    again.

    Args:
        cluster: the cluster of the Lease.
        client: the client that reads the Lease.
        namespace: the namespace of the Lease.
        number: the number of candidates, named `candidate-0` and so on.
        lease: the name of the Lease; other programs may compete for it, too.
        lease_duration: how long others wait before they take over; as all durations, shorter than
            usual, for quick tests.
        renew_deadline: how long a leader that cannot renew keeps leading.
        retry_period: the pause between tries.
        release_on_cancel: whether a stopped leader releases the lease.
        time_budget: the rest of the test's own time limit; None without one.
    """

    def __init__(
        self,
        cluster: Cluster,
        client: ApiClient,
        namespace: str,
        number: int = 3,
        *,
        lease: str = "kwait-leader-election",
        lease_duration: Duration = 3,
        renew_deadline: Duration = 2,
        retry_period: Duration = 0.5,
        release_on_cancel: bool = True,
        time_budget: Callable[[], TimeBudget | None] = lambda: None,
    ) -> None:
        check_count("number", number, least=1)
        if not isinstance(release_on_cancel, bool):
            raise InvalidArgument("release_on_cancel", release_on_cancel, "use True or False")
        durations: dict[str, Any] = {
            "lease_duration": to_seconds(
                lease_duration, what="lease_duration", at_most=MAX_LEASE_SECONDS
            ),
            "renew_deadline": to_seconds(renew_deadline, what="renew_deadline"),
            "retry_period": to_seconds(retry_period, what="retry_period"),
        }
        lock = LeaseLock(client, namespace, lease, "none")
        LeaderElector(  # for its checks
            lock, on_started_leading=bool, on_stopped_leading=bool, **durations
        )
        self.lease = lock.describe()
        """Namespace and name of the Lease."""
        self._namespace, self._name = namespace, lease
        self._session = ApiSession.of(client)
        self._time_budget = time_budget
        self._changed = threading.Condition()
        configuration: dict[str, Any] = {
            "kubeconfig": str(cluster.kubeconfig),
            "context": cluster.context,
            "namespace": namespace,
            "lease": lease,
            "options": {**durations, "release_on_cancel": release_on_cancel},
        }
        self.candidates: Sequence[Candidate] = ()
        """The candidates, ended ones too."""
        try:
            for index in range(number):
                candidate = Candidate(f"candidate-{index}", configuration, client, self._changed)
                self.candidates = (*self.candidates, candidate)
        except BaseException:  # leave no processes behind on an interrupt
            self.stop()
            raise

    def __len__(self) -> int:
        return len(self.candidates)

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self.candidates)

    def __getitem__(self, index: int) -> Candidate:
        return self.candidates[index]

    def __repr__(self) -> str:
        return f"<Candidates for lease {self.lease}: {', '.join(map(str, self.candidates))}>"

    @property
    def leaders(self) -> list[Candidate]:
        """The candidates that lead by their own view; more than one is a split brain."""
        return [candidate for candidate in self.candidates if candidate.leads]

    @property
    def terms(self) -> list[LeaderTerm]:
        """All terms so far, as noted by the candidates, in order."""
        terms = [term for candidate in self.candidates for term in candidate.terms]
        return sorted(terms, key=lambda term: term.started)

    @property
    def holder(self) -> str:
        """The Lease's holder on the server, possibly not a candidate; empty for none.

        Raises:
            ApiError: the server does not return it.
        """
        return str(self._read().get("holderIdentity") or "")

    def leader(
        self, timeout: Duration = _LEADER_TIMEOUT, *, ignoring: Candidate | None = None
    ) -> Candidate:
        """Wait until a candidate leads, and return it.

        Args:
            ignoring: a candidate to ignore, e.g. the previous leader, which leads as long as its
                lease runs, paused or not.

        Raises:
            KwaitError: all candidates have ended.
            WaitTimeout: none led within the limit; lists the state of each.
        """
        limit = timeout_seconds = to_seconds(timeout, what="timeout", allow_zero=False)
        time_budget = self._time_budget()
        if time_budget is not None and time_budget.seconds < timeout_seconds:
            # In tenths, for a readable message.
            limit = max(math.floor(time_budget.seconds * 10) / 10, _MIN_TIMEOUT)
        deadline = Deadline.after(limit)
        eligible = [candidate for candidate in self.candidates if candidate is not ignoring]
        leader = self._wait_for_leader(eligible, deadline)
        if leader is not None:
            return leader
        if not deadline.expired:
            raise KwaitError(f"no candidate of lease {self.lease} can lead: {self._state()}")
        error = WaitTimeout(
            f"no candidate of lease {self.lease} led within {format_duration(limit)}: "
            f"{self._state()}"
        )
        if time_budget is not None and limit < timeout_seconds:
            error.add_note(
                f"its limit of {format_duration(timeout_seconds)} was cut to "
                f"{format_duration(limit)} to end before {time_budget.reason}"
            )
        raise error

    def _wait_for_leader(
        self, eligible: Sequence[Candidate], deadline: Deadline
    ) -> Candidate | None:
        """Return the leader; None after the time limit, or if all candidates have ended."""
        timeline, began = Timeline(), SYSTEM_CLOCK.monotonic()
        pending = ActiveWait(
            f"lease {self.lease}",
            "have a leader",
            deadline,
            timeline,
            began,
            limit=deadline.at - began,
        )
        with ACTIVE_WAITS.entered(pending):
            while not deadline.expired and any(candidate.alive for candidate in eligible):
                with self._changed:
                    for candidate in eligible:
                        if candidate.leads:
                            pending.record_outcome("met")
                            return candidate
                    timeline.record(
                        SYSTEM_CLOCK.monotonic() - began, ", ".join(map(str, self.candidates))
                    )
                    self._changed.wait(min(deadline.remaining, 1.0))
            pending.record_outcome("timed out" if deadline.expired else "failed early")
        return None

    def steal(self, holder: str = "thief", lease_duration: Duration | None = None) -> None:
        """Overwrite the holder of the Lease; its leader must notice and stop.

        Args:
            holder: the new holder.
            lease_duration: the new duration, in seconds; None to keep it.

        Raises:
            ApiError: there is no Lease, or the server refuses.
            InvalidArgument: an empty name, or no duration.
        """
        if not holder:
            raise InvalidArgument("holder", holder, "use a name")
        stolen: dict[str, Any] = {"holderIdentity": holder}
        if lease_duration is not None:
            seconds = to_seconds(
                lease_duration, what="lease_duration", allow_zero=False, at_most=MAX_LEASE_SECONDS
            )
            stolen["leaseDurationSeconds"] = math.ceil(seconds)
        request_with_retry(
            lambda attempt_deadline: self._session.patch(
                LEASES, self._name, {"spec": stolen}, self._namespace, deadline=attempt_deadline
            ),
            Deadline.after(_STOP_TIMEOUT),
        )

    def stop(self) -> None:
        """Stop all candidates, gracefully where possible; then the lease is released."""
        for candidate in self.candidates:
            candidate.begin_stop()
        deadline = Deadline.after(_STOP_TIMEOUT)
        for candidate in self.candidates:
            candidate.end_stop(deadline)

    def _state(self) -> str:
        for candidate in self.candidates:
            candidate.drain_output()
        states = ", ".join(map(str, self.candidates))
        try:
            held = self.holder
        except KwaitError as error:
            return f"{states}; the lease cannot be read: {error}"
        output = [candidate.output[-1] for candidate in self.candidates if candidate.output]
        last = f"; {output[0]}" if output else ""
        holder = f"is held by {held}" if held else "has no holder"
        return f"{states}; the lease {holder}{last}"

    def _read(self) -> dict[str, Any]:
        try:
            lease = request_with_retry(
                lambda attempt_deadline: self._session.get(
                    LEASES, self._name, self._namespace, deadline=attempt_deadline
                ),
                Deadline.after(_STOP_TIMEOUT),
            )
        except ApiError as error:
            if error.status == 404:
                return {}
            raise
        return lease.get("spec") or {}
