"""One wait through a fault proxy in its own thread, and its punctuality.

Time in which the machine did not run this process is not held against a wait.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kwait.clock import SYSTEM_CLOCK
from pytest_kwait.clusters.provider import connect
from pytest_kwait.engine.failure import evidence
from pytest_kwait.errors import ApiError, WaitFailed, WaitTimeout
from tools.fault_proxy.proxy import Proxy

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator
    from concurrent.futures import Future
    from pathlib import Path
    from typing import Self

    from kubernetes.client import ApiClient

    from e2e.faults.core_families import Family
    from tools.fault_proxy.exchange import Request, Upstream

__all__ = [
    "LATE",
    "TRIES",
    "Outcome",
    "ProcessStalls",
    "Trial",
    "Trials",
    "ends_at_its_limit",
    "ends_at_once",
]

STEP = 0.01
"""Seconds between two looks at the clock."""


class ProcessStalls:
    """A thread that does nothing but look at the clock, and notes when it was kept from that.

    A wait that oversleeps, or hangs on a socket, does not keep it; a machine that is busy with
    others does.
    """

    def __init__(self) -> None:
        self._spans: list[tuple[float, float]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="stalls")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def between(self, begin: float, end: float) -> float:
        """Return the seconds of a time, in monotonic seconds, in which nothing here could run."""
        parts = (min(until, end) - max(since, begin) for since, until in list(self._spans))
        return sum(part for part in parts if part > 0)

    def _watch(self) -> None:
        due = SYSTEM_CLOCK.monotonic() + STEP
        while not self._over.wait(STEP):
            now = SYSTEM_CLOCK.monotonic()
            if now - due > STEP:
                self._spans.append((due, now))
            due = SYSTEM_CLOCK.monotonic() + STEP


@dataclass(frozen=True)
class Outcome:
    """How a wait ended.

    Args:
        verdict: `met`, or the name of the error.
        begun: when it began, in monotonic seconds.
        ended: when it ended.
        requests: what it has sent.
        error: what it raised.
    """

    verdict: str
    begun: float
    ended: float
    requests: list[Request]
    error: Exception | None = None

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.ended - self.begun

    @property
    def waited(self) -> float:
        """How long the wait itself took: what follows its end is evidence."""
        told = self.error.waited if isinstance(self.error, WaitFailed | WaitTimeout) else None
        return self.seconds if told is None else told

    @property
    def labels(self) -> list[str]:
        """What was sent, in order."""
        return [request.label for request in self.requests]

    def requests_until(self, moment: float) -> list[Request]:
        """Return what was sent before a moment, in monotonic seconds."""
        return [request for request in self.requests if request.at < moment]


class Trial:
    """One wait, its proxy, and the client that leads through it.

    Args:
        family: the wait.
        proxy: the proxy.
        client: the client.
        pool: where the wait runs.
    """

    def __init__(
        self, family: Family, proxy: Proxy, client: ApiClient, pool: ThreadPoolExecutor
    ) -> None:
        self.family = family
        self.proxy = proxy
        self._client = client
        self._pool = pool
        self._future: Future[Outcome] | None = None

    @property
    def client(self) -> ApiClient:
        """The client that leads through the proxy, for more waits over it."""
        return self._client

    def begin(self, timeout: float) -> None:
        """Begin to wait, in a thread of its own."""
        self._future = self._pool.submit(self._wait, timeout)

    def wait_until_under_way(self) -> None:
        """Return once everything was looked at, and what can be watched is."""
        if self.family.watches:
            self.proxy.wait_until_watched(self.family.watches)
        else:
            self.proxy.wait_until_answered(4)

    def wait_until_under_way_again(self) -> None:
        """Return once the watches that broke are open again."""
        self.proxy.wait_until_watched(2 * self.family.watches, ever=True)

    def outcome(self, patience: float) -> Outcome:
        """Return how the wait ended.

        Raises:
            TimeoutError: it hangs.
        """
        assert self._future is not None
        return self._future.result(patience)

    def _wait(self, timeout: float) -> Outcome:
        begun = SYSTEM_CLOCK.monotonic()
        error: Exception | None = None
        try:
            result = self.family.wait(self._client, timeout)
            verdict = "met" if self.family.is_right(result) else f"met by {result!r}"
        except (ApiError, WaitFailed, WaitTimeout) as raised:
            verdict, error = type(raised).__name__, raised
        return Outcome(verdict, begun, SYSTEM_CLOCK.monotonic(), self.proxy.requests, error)


class Trials:
    """Lends proxies with their clients to trials; those of a test that went well are used again.

    Args:
        upstream: the API server.
        tls: what proxies show.
        authority: who vouches for that, as PEM.
        folder: where kubeconfigs go.
    """

    def __init__(
        self, upstream: Upstream, tls: ssl.SSLContext, authority: bytes, folder: Path
    ) -> None:
        self._upstream = upstream
        self._tls = tls
        self._authority = authority
        self._folder = folder
        self._proxies = ExitStack()
        self._idle: list[tuple[Proxy, ApiClient]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._proxies.close()

    @contextmanager
    def of(self, *families: Family) -> Iterator[list[Trial]]:
        """Give trials of waits, whose objects are there."""
        ways = [self._idle.pop() if self._idle else self._way() for _ in families]
        with ThreadPoolExecutor(len(families), thread_name_prefix="trial") as pool:
            list(pool.map(lambda family: family.prepare(), dict.fromkeys(families)))
            try:
                yield [
                    Trial(family, proxy, client, pool)
                    for family, (proxy, client) in zip(families, ways, strict=True)
                ]
            finally:
                for proxy, _ in ways:
                    proxy.heal()
        for proxy, _ in ways:
            proxy.forget()
        self._idle += ways

    def _way(self) -> tuple[Proxy, ApiClient]:
        proxy = self._proxies.enter_context(Proxy(self._upstream, self._tls))
        file = self._folder / f"{proxy.port}.kubeconfig"
        self._upstream.kubeconfig(file, proxy.address, self._authority)
        client = connect(file).client()
        proxy.forget()
        return proxy, client


LATE = 1.0
"""Seconds after the moment it must within which a wait has ended, but for those that nobody had."""

SLACK = 3.0
"""Seconds that a machine may take for what a wait does not: it is busy with other workers."""

PATIENCE = 70.0
"""Seconds after which a wait hangs."""

TRIES = 3
"""How often a wait is tried, alone from the second time on.

A busy machine lets end late what ends in time, and nothing the other way round: a wait whose fault
it is ends late each time.
"""


def ends_at_its_limit(trial: Trial, outcome: Outcome, limit: float, stalls: ProcessStalls) -> bool:
    """Say whether a wait that comes to its limit ends there, and its evidence soon after.

    Args:
        trial: the wait; its fault lasts.
        outcome: how it ended first.
        limit: its limit in seconds.
        stalls: when nothing here could run.
    """
    for _ in range(TRIES):
        if outcome.waited < limit:
            return False
        end = outcome.begun + outcome.waited
        held_up = stalls.between(outcome.begun + limit, end)
        # What follows is evidence. The wall clock includes what other threads of a test do.
        spent = outcome.seconds - outcome.waited - stalls.between(end, outcome.ended)
        if outcome.waited < limit + LATE + held_up and spent < evidence.LIMIT + SLACK:
            return True
        trial.begin(limit)
        outcome = trial.outcome(PATIENCE)
    return False


def ends_at_once(trial: Trial, outcome: Outcome, timeout: float, stalls: ProcessStalls) -> bool:
    """Say whether a wait that is refused ends without waiting for anything, or asking again.

    The wait before it over the same proxy may have had a request on its way when it ended: that is
    counted here once, and not when it is tried again.

    Args:
        trial: the wait; its fault lasts.
        outcome: how it ended first.
        timeout: what it is given when it is tried again, in seconds.
        stalls: when nothing here could run.
    """
    for _ in range(TRIES):
        late = outcome.seconds >= LATE + stalls.between(outcome.begun, outcome.ended)
        if not late and len(outcome.requests) <= max(trial.family.watches, 1):
            return True
        trial.proxy.forget()
        trial.begin(timeout)
        outcome = trial.outcome(PATIENCE)
    return False
