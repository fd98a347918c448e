"""The sign of life of a run: a Lease that one process renews while the run lasts.

It is made when the run first makes something in the cluster, renewed at a slow interval by the
process that owns the run (the controller under pytest-xdist), and removed at the run's end: two
requests for a run that is over before the first renewal. Its times are the server's, as the server
tells them in the Date of its answers, so that nobody has to trust the clock of anybody's machine.

It also names the kinds of what the run makes outside of its namespaces, each before the first one
is made. Whoever cleans up after a killed run so knows where to look, and asks for nothing else.
"""

from __future__ import annotations

import math
import os
import socket
import threading
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Protocol

from pytest_kwait.client.resource import LEASES
from pytest_kwait.client.responses import decode_object
from pytest_kwait.client.session import Session
from pytest_kwait.client.write_options import MERGE_PATCH
from pytest_kwait.clock import Deadline, rfc3339_micro
from pytest_kwait.engine.retry import request_with_retry
from pytest_kwait.errors import ApiError, KwaitError
from pytest_kwait.suite.cleanup.owned_objects import (
    ANNOTATION_PREFIX,
    LABEL_MANAGED_BY,
    LABEL_RUN,
    LABEL_SHARD,
    MANAGED_BY,
    run_label_value,
    run_lease_name,
    shard_label_value,
)
from pytest_kwait.wait.errors import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kubernetes.client import ApiClient

    from pytest_kwait.client.resource import Resource
    from pytest_kwait.client.responses import Response

__all__ = [
    "LEASE_NAMESPACE",
    "RENEWALS_PER_DURATION",
    "RENEW_INTERVAL",
    "RunLeaseRenewer",
    "RunRegistration",
    "format_kind",
    "read_server_time",
]

RENEW_INTERVAL = 30.0
"""Seconds between two renewals."""

RENEWALS_PER_DURATION = 4
"""How many intervals a Lease lasts: so many renewals may fail."""

LEASE_NAMESPACE = "default"
"""Where the Lease is unless the run was given a namespace: a namespace that cannot be deleted."""

_REQUEST_TIMEOUT = 15.0
"""Seconds that the first request may take; after that the run goes on without a sign of life."""

_MAX_CLOCK_SKEW = 2.0
"""Seconds that two clocks may differ before the Lease is written again."""


class RunRegistration(Protocol):
    """What those who make something need of the run's sign of life."""

    def place(self) -> str:
        """Return namespace/name of the Lease, made if need be; empty where there can be none."""
        ...

    def record(self, kind: str) -> None:
        """Note that an object of a kind (`plural.version.group`) is about to be made."""
        ...

    def acquire_namespace_quota(self, name: str, seconds: float) -> str:
        """Return once a namespace of that name may be made, or why not after `seconds`."""
        ...


class RunLeaseRenewer:
    """The Lease of one run, renewed in a thread of its own from when it is first asked for.

    Nothing here raises because of the cluster: a run without a sign of life is still a run. What
    went wrong is in `problem`.

    Args:
        client: the client; for this object alone.
        run: the id of the run.
        nonce: keeps apart runs that were given the same id.
        interval: seconds between two renewals.
        namespace: where the Lease is to be.
        shard: the part of the suite that this machine runs; empty without shards.
    """

    def __init__(
        self,
        client: ApiClient,
        run: str,
        nonce: str,
        *,
        interval: float = RENEW_INTERVAL,
        namespace: str = LEASE_NAMESPACE,
        shard: str = "",
    ) -> None:
        self._session = Session.of(client)
        self._run = run
        self._nonce = nonce
        self._interval = interval
        self._namespace = namespace
        self._labels = {LABEL_MANAGED_BY: MANAGED_BY, LABEL_RUN: run_label_value(run)}
        if shard:
            self._labels[LABEL_SHARD] = shard_label_value(shard)
        self._name = run_lease_name(run, nonce)
        self._lock = threading.Lock()
        self._begun = False
        self._exists = False
        self._kinds: list[str] = []
        self._offset = 0.0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self.problem: str | None = None
        """What went wrong with the Lease, in one line; None if nothing did."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds that were noted."""
        return tuple(self._kinds)

    def place(self) -> str:
        """Return namespace/name of the Lease, made if need be; empty where there can be none."""
        # A renewal that hangs holds the lock: nobody else is to wait for it.
        if not self._begun:
            with self._lock:
                if not self._begun:
                    self._begin()
                    self._begun = True
        return f"{self._namespace}/{self._name}" if self._exists else ""

    def record(self, kind: str) -> None:
        """Note that an object of a kind is about to be made; a request for each new kind."""
        self.place()
        with self._lock:
            if kind in self._kinds:
                return
            self._kinds.append(kind)
            if not self._exists:
                return
            notes = {ANNOTATION_PREFIX + "kinds": ",".join(self._kinds)}
            try:
                self._patch({"metadata": {"annotations": notes}}, _REQUEST_TIMEOUT)
            except (ApiError, DeadlineExceeded) as error:
                self.problem = (
                    f"the Lease {self._namespace}/{self._name} cannot be changed: {error}"
                )

    def end(self, *, leave: bool = False) -> None:
        """Stop renewing, and remove the Lease.

        Args:
            leave: whether to leave it as a note of where to look for what stays in the cluster.
        """
        self._ended.set()
        if self._thread is not None:
            self._thread.join(_REQUEST_TIMEOUT)
        with self._lock:
            if not self._exists:
                return
            self._exists = False
            try:
                if leave:
                    self._patch(
                        {"metadata": {"annotations": {ANNOTATION_PREFIX + "ended": "true"}}},
                        _REQUEST_TIMEOUT,
                    )
                else:
                    path = LEASES.path(self._namespace, self._name)
                    self._ask("DELETE", path, {}, _REQUEST_TIMEOUT)
            except (ApiError, DeadlineExceeded) as error:
                if not (isinstance(error, ApiError) and error.status == 404):
                    self.problem = f"the Lease {self._namespace}/{self._name} stays: {error}"

    def _begin(self) -> None:
        try:
            self._create()
        except (ApiError, DeadlineExceeded) as error:
            self.problem = (
                f"no Lease in namespace {self._namespace} can say that the run lives, so what a "
                f"killed run leaves stays until it expires: {error}"
            )
            return
        self._exists = True
        self._thread = threading.Thread(target=self._beat, name="kwait heartbeat", daemon=True)
        self._thread.start()

    def _beat(self) -> None:
        clock = self._session.clock
        pause = 0.0 if abs(self._offset) > _MAX_CLOCK_SKEW else self._interval
        while not clock.wait(self._ended, pause):
            pause = self._interval
            try:
                self._renew()
            except (KwaitError, DeadlineExceeded) as error:
                # The next beat may do; the Lease lasts for several.
                self.problem = f"the Lease {self._namespace}/{self._name} was not renewed: {error}"

    def _renew(self) -> None:
        with self._lock:
            if self._ended.is_set():
                return
            try:
                lease = self._patch({"spec": {"renewTime": self._now()}}, self._interval)
            except ApiError as error:
                if error.status != 404:
                    raise
                # Somebody has removed it: what we made must not be taken for a dead run's.
                self._create()
                return
        if ((lease.get("metadata") or {}).get("annotations") or {}).get(
            ANNOTATION_PREFIX + "removed"
        ):
            self.problem = "a janitor has taken this run for dead and removed what it had made"

    def _create(self) -> None:
        try:
            self._ask("POST", LEASES.path(self._namespace), self._manifest(), _REQUEST_TIMEOUT)
        except ApiError as error:
            # An earlier try whose answer got lost: nobody else makes one of this name.
            if error.reason != "AlreadyExists":
                raise

    def _patch(self, change: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        path = LEASES.path(self._namespace, self._name)
        return decode_object(self._ask("PATCH", path, change, seconds, MERGE_PATCH).data)

    def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any],
        seconds: float,
        content_type: str | None = None,
    ) -> Response:
        answer = request_with_retry(
            lambda deadline: self._session.request(
                method, path, body=body, content_type=content_type, deadline=deadline
            ),
            Deadline.after(seconds, self._session.clock),
        )
        told = read_server_time(answer.headers)
        if told is not None:
            self._offset = told - self._session.clock.time()
        return answer

    def _manifest(self) -> dict[str, Any]:
        now = self._now()
        notes = {ANNOTATION_PREFIX + "run": self._run, ANNOTATION_PREFIX + "nonce": self._nonce}
        if self._kinds:
            notes[ANNOTATION_PREFIX + "kinds"] = ",".join(self._kinds)
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {
                "name": self._name,
                "labels": self._labels,
                "annotations": notes,
            },
            "spec": {
                "holderIdentity": f"{socket.gethostname()}_{os.getpid()}",
                "leaseDurationSeconds": math.ceil(RENEWALS_PER_DURATION * self._interval),
                "acquireTime": now,
                "renewTime": now,
            },
        }

    def _now(self) -> str:
        return rfc3339_micro(self._session.clock.time() + self._offset)


def read_server_time(headers: Mapping[str, str]) -> float | None:
    """Return when the server answered, by its own clock; None if it did not say."""
    try:
        return parsedate_to_datetime(str(headers.get("date"))).timestamp()
    except ValueError:
        return None


def format_kind(resource: Resource) -> str:
    """Return the name of a kind that is noted: `plural.version.group`, `plural.v1.` for core."""
    return f"{resource.plural}.{resource.version}.{resource.group}"
