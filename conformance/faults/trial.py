"""One wait through a fault proxy in its own thread, and the delay of its end.

Time in which the machine did not run this process is not held against a wait.
"""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kubernetes.client import ApiClient

from pytest_kwait import ApiError, WaitFailed, WaitTimeout
from pytest_kwait.client.session import ApiSession
from pytest_kwait.client.transport import pin_settings
from pytest_kwait.clock import SYSTEM_CLOCK
from pytest_kwait.clusters.provider import connect
from pytest_kwait.engine.failure import evidence
from tools.fault_proxy.proxy import Proxy

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator
    from concurrent.futures import Future
    from pathlib import Path
    from typing import Self

    from conformance.faults.family import Family
    from tools.fault_proxy.exchange import Request, Upstream

STEP = 0.01
"""Seconds between two clock readings."""


class ProcessStalls:
    """A thread that records when this process was not scheduled.

    It keeps running while a wait oversleeps or hangs on a socket, but not on an overloaded machine.
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
        """Return the seconds of stalls between two moments, in monotonic seconds."""
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
    """The end of a wait.

    Args:
        verdict: `met`, or the name of the error.
        begun: its start, in monotonic seconds.
        ended: its end, in monotonic seconds.
        requests: the requests that it sent.
        error: the error that it raised.
    """

    verdict: str
    begun: float
    ended: float
    requests: list[Request]
    error: Exception | None = None

    @property
    def seconds(self) -> float:
        """The duration in seconds."""
        return self.ended - self.begun

    @property
    def waited(self) -> float:
        """The duration without the evidence that follows the wait."""
        told = self.error.waited if isinstance(self.error, WaitFailed | WaitTimeout) else None
        return self.seconds if told is None else told

    @property
    def labels(self) -> list[str]:
        """The requests, in order."""
        return [request.label for request in self.requests]

    def requests_until(self, moment: float) -> list[Request]:
        """Return the requests before a moment, in monotonic seconds."""
        return [request for request in self.requests if request.at < moment]


class Trial:
    """One wait, its proxy, and the client of the proxy.

    Args:
        family: the wait.
        proxy: the proxy.
        client: the client.
        pool: the threads that waits run in.
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
        """The client of the proxy."""
        return self._client

    def begin(self, timeout: float) -> None:
        """Begin to wait, in a thread."""
        self._future = self._pool.submit(self._wait, timeout)

    def wait_until_under_way(self) -> None:
        """Return once the wait has sent its first requests and opened its watches."""
        if self.family.watches:
            self.proxy.wait_until_watched(self.family.watches)
        else:
            self.proxy.wait_until_answered(4)

    def wait_until_under_way_again(self) -> None:
        """Return once the broken watches are open again."""
        self.proxy.wait_until_watched(2 * self.family.watches, ever=True)

    def outcome(self, patience: float) -> Outcome:
        """Return the outcome of the wait.

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
            verdict = "met" if self.family.is_expected_result(result) else f"met by {result!r}"
        except (ApiError, WaitFailed, WaitTimeout) as raised:
            verdict, error = type(raised).__name__, raised
        # A watch of the test before may have been on its way when its wait ended.
        others = re.compile(rf"/namespaces/(?!{re.escape(self.family.place.namespace)}[/?]).+/")
        requests = [one for one in self.proxy.requests if not others.search(one.target)]
        return Outcome(verdict, begun, SYSTEM_CLOCK.monotonic(), requests, error)


class Trials:
    """Lends proxies with their clients to trials; those of passed tests are used again.

    Args:
        upstream: the API server.
        tls: the certificate of the proxies.
        authority: its authority, as PEM.
        folder: the folder of kubeconfigs.
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
        self._first: ApiClient | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._proxies.close()

    @contextmanager
    def of(self, *families: Family) -> Iterator[list[Trial]]:
        """Yield trials of waits whose objects exist."""
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
                    proxy.end_fault()
        for proxy, _ in ways:
            proxy.reset_counts()
        self._idle += ways

    def _way(self) -> tuple[Proxy, ApiClient]:
        proxy = self._proxies.enter_context(Proxy(self._upstream, self._tls))
        if self._first is None:
            file = self._folder / f"{proxy.port}.kubeconfig"
            self._upstream.kubeconfig(file, proxy.address, self._authority)
            self._first = connect(file).client()
            proxy.reset_counts()
            return proxy, self._first
        return proxy, _like(self._first, proxy.address)


def _like(client: ApiClient, address: str) -> ApiClient:
    """Return a client of the same user for the server at another address.

    A kubeconfig of its own would be parsed for each of fifty proxies.
    """
    configuration = deepcopy(client.configuration)
    pin_settings(configuration, {"host": address})
    made = ApiClient(configuration)
    ApiSession.of(made).kubectl_args = ApiSession.of(client).kubectl_args
    return made


LATE = 1.0
"""The longest delay of a wait's end in seconds, stalls excluded."""

SLACK = 3.0
"""Seconds of tolerance for a machine that is busy with other workers."""

PATIENCE = 70.0
"""Seconds after which a wait counts as hanging."""

TRIES = 3
"""The number of tries, from the second on alone.

A busy machine can delay a punctual wait, but never hides a late one: a defect is late each time.
"""


def ends_at_its_limit(trial: Trial, outcome: Outcome, limit: float, stalls: ProcessStalls) -> bool:
    """Return whether a wait under a lasting fault ends at its limit, and its evidence soon after.

    Args:
        trial: the wait.
        outcome: its first outcome.
        limit: its limit in seconds.
        stalls: when the process stalled.
    """
    for _ in range(TRIES):
        if outcome.waited < limit:
            return False
        end = outcome.begun + outcome.waited
        held_up = stalls.between(outcome.begun + limit, end)
        # Evidence follows. Wall-clock time includes other threads of the test.
        spent = outcome.seconds - outcome.waited - stalls.between(end, outcome.ended)
        if outcome.waited < limit + LATE + held_up and spent < evidence.LIMIT + SLACK:
            return True
        trial.begin(limit)
        outcome = trial.outcome(PATIENCE)
    return False


def ends_at_once(trial: Trial, outcome: Outcome, timeout: float, stalls: ProcessStalls) -> bool:
    """Return whether a wait that is refused ends at once, without further requests.

    A previous wait over the same proxy may still have had a request under way: it is counted in the
    first outcome, but not when the wait is tried again.

    Args:
        trial: the wait.
        outcome: its first outcome.
        timeout: the timeout of further tries, in seconds.
        stalls: when the process stalled.
    """
    for _ in range(TRIES):
        late = outcome.seconds >= LATE + stalls.between(outcome.begun, outcome.ended)
        if not late and len(outcome.requests) <= max(trial.family.watches, 1):
            return True
        trial.proxy.reset_counts()
        trial.begin(timeout)
        outcome = trial.outcome(PATIENCE)
    return False
