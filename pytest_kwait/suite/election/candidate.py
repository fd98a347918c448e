"""One candidate for a lease: a process, what is done to it, and what it has noted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kwait.clock import SYSTEM_CLOCK, Deadline
from pytest_kwait.errors import KwaitError
from pytest_kwait.suite.election.candidate_main import server_endpoint
from pytest_kwait.suite.election.relay import CuttableProxy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kubernetes.client import ApiClient

__all__ = ["PROGRAM", "Candidate", "LeaderTerm"]

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
        self._listener = threading.Thread(target=self._listen, name=identity, daemon=True)
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

    def _listen(self) -> None:
        stream = self._process.stdout
        for line in stream or ():
            text = line.decode(errors="replace").rstrip()
            with self._changed:
                if text.startswith(_MESSAGE_PREFIXES):
                    self._note(json.loads(text))
                elif text:
                    self.said.append(text)
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def _note(self, facts: Mapping[str, Any]) -> None:
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
