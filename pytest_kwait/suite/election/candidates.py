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

from pytest_kwait.apimachinery.durations import Duration, format_duration, to_seconds
from pytest_kwait.client.resource import LEASES
from pytest_kwait.client.session import Session
from pytest_kwait.clock import SYSTEM_CLOCK, Deadline
from pytest_kwait.engine.active_waits import ACTIVE_WAITS, ActiveWait
from pytest_kwait.engine.failure.timeline import Timeline
from pytest_kwait.engine.options import check_count
from pytest_kwait.engine.retry import request_with_retry
from pytest_kwait.errors import ApiError, InvalidArgument, KwaitError, WaitTimeout
from pytest_kwait.leaderelection import LeaderElector, LeaseLock
from pytest_kwait.suite.election.candidate_main import server_endpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kubernetes.client import ApiClient

    from pytest_kwait.clusters.provider import Cluster
    from pytest_kwait.suite.bound_wait import TimeBudget

__all__ = ["PROGRAM", "Candidate", "Candidates", "CuttableProxy", "LeaderTerm"]

_CHUNK_SIZE = 65536


class CuttableProxy:
    """Passes connections to a local port on to a server, as long as it is not cut.

    While it is cut, connections are opened and nothing is heard over them, as over a network that
    has broken: nobody is told, and time-outs have to notice.

    Args:
        host: the server's name or address.
        port: its port.
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
        """Pass nothing on from now on."""
        self._passing.clear()

    def join(self) -> None:
        """Pass everything on again, that which came meanwhile first."""
        self._passing.set()

    def close(self) -> None:
        """End all connections; none can be opened any more."""
        with self._lock:
            self._closed = True
            sockets = [*self._sockets, self._listening]
        for each in sockets:
            with contextlib.suppress(OSError):  # not connected any more
                each.shutdown(socket.SHUT_RDWR)
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
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

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


PROGRAM = (sys.executable, "-P", "-m", "pytest_kwait.suite.election.candidate_main")
"""What a candidate runs; its argument and what it says are described there."""

_DRAIN_TIMEOUT = 5.0
"""Seconds in which the last lines of a process are read at most."""

_MESSAGE_PREFIXES = ('{"led"', '{"lost"', '{"sees"')
"""How the lines begin that are no log."""

_MAX_OUTPUT_LINES = 20
"""Lines that are kept of what a candidate has said besides its notes."""


@dataclass(frozen=True, slots=True)
class LeaderTerm:
    """One leadership, in seconds of the monotonic clock, which all processes of a machine share.

    Args:
        identity: who led.
        started: when it acted as leader first.
        until: when its lease would have run out at the end, unrenewed.
        last_act: when it acted as leader last.
        ended: when it was over: lost, stopped, killed, or run out; None while it lasts.
    """

    identity: str
    started: float
    until: float
    last_act: float
    ended: float | None = None


class Candidate:
    """One candidate.

    A leader acts every 50 ms: it asks its context whether it still leads, and notes when it asked.

    Args:
        identity: its name in the Lease.
        told: what all candidates are told.
        client: whose server it talks to, over a way of its own.
        changed: notified of whatever happens to it.
    """

    def __init__(
        self,
        identity: str,
        told: Mapping[str, Any],
        client: ApiClient,
        changed: threading.Condition,
    ) -> None:
        self.identity = identity
        """Its name in the Lease."""
        self.said: deque[str] = deque(maxlen=_MAX_OUTPUT_LINES)
        """The last lines of its log: errors, mostly."""
        self.acts: list[float] = []
        """When it acted as leader, in seconds of the monotonic clock."""
        self.seen: list[str] = []
        """The leaders it has seen, in this order; empty for none."""
        self._changed = changed
        self._terms: list[LeaderTerm] = []
        self._paused = self._cut = self._stopping = False
        self._killed_at: float | None = None
        self._relay = CuttableProxy(*server_endpoint(client.configuration))
        arguments = json.dumps({**told, "identity": identity, "port": self._relay.port})
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own module and checked values
                [*PROGRAM, arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                # Ctrl-C is not for it. In our session it is woken, and ended, if we die while it
                # is paused.
                process_group=0,
            )
        except OSError:
            self._relay.close()
            raise
        self._listener = threading.Thread(target=self._read_output, name=identity, daemon=True)
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
        """Whether its process runs, paused or not."""
        return self._process.poll() is None

    @property
    def leads(self) -> bool:
        """Whether it leads now: it has a lease, as far as it was noted, that has not run out."""
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
        """Its leaderships so far."""
        with self._changed:
            return list(self._terms)

    def pause(self) -> None:
        """Freeze its process (SIGSTOP), as a machine that hangs does.

        Raises:
            KwaitError: it has ended.
        """
        self._signal(signal.SIGSTOP)
        self._paused = True

    def resume(self) -> None:
        """Let its process go on (SIGCONT).

        Raises:
            KwaitError: it has ended.
        """
        self._paused = False
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """End its process at once (SIGKILL): it gives nothing back. Returns when it has ended.

        Raises:
            KwaitError: it has ended already.
        """
        self._signal(signal.SIGKILL)
        self._end()

    def cut_off(self) -> None:
        """Let nothing through between it and the server; connections stay open and silent."""
        self._cut = True
        self._relay.cut()

    def reconnect(self) -> None:
        """Let everything through again, first what was on the way."""
        self._cut = False
        self._relay.join()

    def stop(self, timeout: float = 10.0) -> None:
        """Have it end in good order, giving the lease back if it leads; return when it has.

        One that is paused or cut off cannot, and is killed; so is one that does not end in time.

        Args:
            timeout: seconds that it may take.
        """
        self.begin_stop()
        self.end_stop(Deadline.after(timeout))

    def begin_stop(self) -> None:
        """Tell it to end."""
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
        """Return when it has ended, by force if it does not by itself."""
        try:
            self._process.wait(deadline.remaining)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._end()

    def drain_output(self) -> None:
        """Return once all is noted that it has said, if it has ended."""
        if not self.alive:
            self._listener.join(_DRAIN_TIMEOUT)

    def _signal(self, number: signal.Signals) -> None:
        if not self.alive or self._killed_at is not None:
            raise KwaitError(f"{self} already")
        if number is signal.SIGKILL:
            self._killed_at = SYSTEM_CLOCK.monotonic()
        self._process.send_signal(number)

    def _end(self) -> None:
        """Take leave of a process that was told to end."""
        self._process.wait()
        self._listener.join()
        self._relay.close()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None and not pipe.closed:
                try:
                    pipe.close()
                except OSError:  # what was still to be written has no reader
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
                    self.said.append(text)
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


_STOP_TIMEOUT = 5.0
"""Seconds that candidates have to end in good order."""

_MIN_TIMEOUT = 0.1
"""Seconds for a leader to be there where a test has no more time."""

_LEADER_TIMEOUT = 60.0
"""Seconds in which there should be a leader: processes have to start, and a lease to run out."""


class Candidates:
    """An election among processes of this machine.

    Each leads in turn, as the lease has it, and does nothing then but note that it does. Who has
    lost its leadership competes again.

    Args:
        cluster: where the lease is.
        client: the client that the election is looked at with.
        namespace: where the lease is.
        number: how many candidates, named `candidate-0` and so on.
        lease: the name of the Lease; one that somebody else competes for as well will do.
        lease_duration: how long others wait before they take over; as all durations, shorter than
            usual, for tests to be quick.
        renew_deadline: how long a leader that cannot renew stays one.
        retry_period: the pause between tries.
        release_on_cancel: whether a leader that is stopped gives the lease back.
        time_budget: what the test's own limit leaves to a wait; None without one.

    Raises:
        InvalidArgument: an argument that cannot be meant.
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
            "lease_duration": to_seconds(lease_duration, what="lease_duration"),
            "renew_deadline": to_seconds(renew_deadline, what="renew_deadline"),
            "retry_period": to_seconds(retry_period, what="retry_period"),
        }
        lock = LeaseLock(client, namespace, lease, "nobody")
        LeaderElector(  # for its checks
            lock, on_started_leading=bool, on_stopped_leading=bool, **durations
        )
        self.lease = lock.describe()
        """Namespace and name of the Lease."""
        self._namespace, self._name = namespace, lease
        self._session = Session.of(client)
        self._time_budget = time_budget
        self._changed = threading.Condition()
        told: dict[str, Any] = {
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
                candidate = Candidate(f"candidate-{index}", told, client, self._changed)
                self.candidates = (*self.candidates, candidate)
        except BaseException:  # an interrupt too must not leave processes behind
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
        """Those that lead now, by the lease as they know it; more than one is what must not be."""
        return [each for each in self.candidates if each.leads]

    @property
    def terms(self) -> list[LeaderTerm]:
        """All leaderships so far, as the candidates have noted them, in order."""
        terms = [term for each in self.candidates for term in each.terms]
        return sorted(terms, key=lambda term: term.started)

    @property
    def holder(self) -> str:
        """Who holds the Lease, as the server has it; empty for nobody. Not only candidates can.

        Raises:
            ApiError: the server does not show it.
        """
        return str(self._read().get("holderIdentity") or "")

    def leader(
        self, timeout: Duration = _LEADER_TIMEOUT, *, besides: Candidate | None = None
    ) -> Candidate:
        """Return the candidate that leads, once one does.

        Args:
            timeout: the limit.
            besides: who is not meant, for example the one before, which leads as long as its lease
                runs, paused or not.

        Raises:
            KwaitError: none can, as all have ended.
            WaitTimeout: none did within the limit; says how each one is.
        """
        limit = asked = to_seconds(timeout, what="timeout", allow_zero=False)
        time_budget = self._time_budget()
        if time_budget is not None and time_budget.seconds < asked:
            # In tenths, for the sake of the message.
            limit = max(math.floor(time_budget.seconds * 10) / 10, _MIN_TIMEOUT)
        deadline = Deadline.after(limit)
        meant = [each for each in self.candidates if each is not besides]
        found = self._wait_for_leader(meant, deadline)
        if found is not None:
            return found
        if not deadline.expired:
            raise KwaitError(f"no candidate of lease {self.lease} can lead: {self._state()}")
        error = WaitTimeout(
            f"no candidate of lease {self.lease} led within {format_duration(limit)}: "
            f"{self._state()}"
        )
        if time_budget is not None and limit < asked:
            error.add_note(
                f"its limit of {format_duration(asked)} was cut to {format_duration(limit)} to "
                f"end before {time_budget.reason}"
            )
        raise error

    def _wait_for_leader(self, meant: Sequence[Candidate], deadline: Deadline) -> Candidate | None:
        """Return who leads; None once the time is over, or nobody is left."""
        timeline, began = Timeline(), SYSTEM_CLOCK.monotonic()
        pending = ActiveWait(f"lease {self.lease}", "have a leader", deadline, timeline, began)
        with ACTIVE_WAITS.entered(pending):
            while not deadline.expired and any(each.alive for each in meant):
                with self._changed:
                    for each in meant:
                        if each.leads:
                            return each
                    timeline.record(
                        SYSTEM_CLOCK.monotonic() - began, ", ".join(map(str, self.candidates))
                    )
                    self._changed.wait(min(deadline.remaining, 1.0))
        return None

    def steal(self, holder: str = "thief", lease_duration: Duration | None = None) -> None:
        """Write somebody else into the Lease, whoever holds it: its leader must notice and stop.

        Args:
            holder: whom.
            lease_duration: how long those wait that see it, from then on; None to keep what it is.

        Raises:
            ApiError: there is no Lease, or the server refuses.
            InvalidArgument: an empty name, or no duration.
        """
        if not holder:
            raise InvalidArgument("holder", holder, "use a name")
        stolen: dict[str, Any] = {"holderIdentity": holder}
        if lease_duration is not None:
            seconds = to_seconds(lease_duration, what="lease_duration", allow_zero=False)
            stolen["leaseDurationSeconds"] = math.ceil(seconds)
        request_with_retry(
            lambda left: self._session.patch(
                LEASES, self._name, {"spec": stolen}, self._namespace, deadline=left
            ),
            Deadline.after(_STOP_TIMEOUT),
        )

    def stop(self) -> None:
        """End all candidates, in good order where they can: the lease is then given back."""
        for each in self.candidates:
            each.begin_stop()
        deadline = Deadline.after(_STOP_TIMEOUT)
        for each in self.candidates:
            each.end_stop(deadline)

    def _state(self) -> str:
        for each in self.candidates:
            each.drain_output()
        states = ", ".join(map(str, self.candidates))
        try:
            held = self.holder
        except KwaitError as error:
            return f"{states}; the lease cannot be read: {error}"
        said = [each.said[-1] for each in self.candidates if each.said]
        last = f"; {said[0]}" if said else ""
        return f"{states}; the lease is held by {held or 'nobody'}{last}"

    def _read(self) -> dict[str, Any]:
        try:
            lease = request_with_retry(
                lambda left: self._session.get(LEASES, self._name, self._namespace, deadline=left),
                Deadline.after(_STOP_TIMEOUT),
            )
        except ApiError as error:
            if error.status == 404:
                return {}
            raise
        return lease.get("spec") or {}
