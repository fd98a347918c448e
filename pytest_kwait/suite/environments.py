"""The Lease of an environment that all processes of a run share: one makes it, the others wait.

The Lease is created by the first process that needs the environment, and renewed until the
environment is made. A process that waits takes over once the Lease has not changed for its whole
duration, by its own clock. Each change names the resourceVersion that was read, so a process that
was taken for dead cannot publish what it made.

The Lease has the form of a run's that has ended while other shards go on: the janitor keeps it, and
the objects that name it, until the last Lease of the run is gone or dead.

That of an environment that stays belongs to no run. It lists the Leases of the runs that have used
it: while one of them lives, no other run makes the environment again, and no janitor removes it. A
run looks once whether it is as it was.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import socket
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.times import (
    format_duration,
    format_micro_time,
    format_time,
    parse_time_or_none,
)
from pytest_kwait.client.resource import LEASES
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.retry import request_with_retry
from pytest_kwait.errors import ApiError, ClusterError, KwaitError
from pytest_kwait.suite.cleanup.owned_objects import (
    ANNOTATION_PREFIX,
    ENVIRONMENTS_RUN,
    LABEL_MANAGED_BY,
    LABEL_RUN,
    MANAGED_BY,
    run_label_value,
    run_lease_name,
)
from pytest_kwait.suite.cleanup.run_lease import LEASE_NAMESPACE, is_run_alive
from pytest_kwait.suite.lease_renewer import LeaseRenewer
from pytest_kwait.wait.context import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kubernetes.client import ApiClient

    from pytest_kwait.suite.cleanup.owned_objects import RunRegistration

_DURATION = 20.0
"""Seconds without a change after which the process that makes an environment counts as dead."""

_RENEW_INTERVAL = 4.0
_POLL_INTERVAL = 0.25
_REQUEST_TIMEOUT = 15.0

_MAX_VALUE_LENGTH = 100_000
"""Characters of a value: all annotations of an object have at most 256 KiB."""

_STATE = ANNOTATION_PREFIX + "environment-state"
_VALUE = ANNOTATION_PREFIX + "environment-value"
_KINDS = ANNOTATION_PREFIX + "kinds"
_RECORD = ANNOTATION_PREFIX + "environment-record"
_USERS = ANNOTATION_PREFIX + "users"
_EXPIRES = ANNOTATION_PREFIX + "expires"
_REMOVED = ANNOTATION_PREFIX + "removed"

_MAX_RECORD_LENGTH = 140_000
_USE_INTERVAL = 1.0
"""Seconds between two looks at the runs that use an environment."""


@dataclass(frozen=True, slots=True)
class EnvironmentState:
    """The state of an environment as its Lease has it.

    Args:
        name: `making`, `ready`, `failed` or `skipped`.
        attempt: 1 for the first process that makes it, 2 for the one that takes over.
        maker: a readable name of that process.
        namespace: the environment's; empty while it is not ready.
        uid: the UID of the namespace.
        value: JSON of the value, or the reason of a failure.
        record: JSON of the inputs and objects of one that stays.
        reason: why this process makes it again, or "" if it is new.
        is_known: whether a run uses it: this one already, or with a reason another one.
        kinds: the kinds of its objects outside of its namespace.
        made: when its making began: seconds since the epoch.
    """

    name: str
    attempt: int
    maker: str
    namespace: str = ""
    uid: str = ""
    value: str = ""
    record: str = ""
    reason: str = ""
    is_known: bool = False
    kinds: tuple[str, ...] = ()
    made: float = 0.0


def encode_value(value: Any) -> str:
    """Return a value as JSON.

    Raises:
        ClusterError: it has no JSON, or too much.
    """
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ClusterError(
            f"other processes cannot be given the value {value!r:.80}: {error}; yield the Kwait, "
            "or what JSON can express: texts, numbers, booleans, None, lists and dicts of them"
        ) from None
    if len(text) > _MAX_VALUE_LENGTH:
        raise ClusterError(
            f"other processes cannot be given a value of {len(text)} characters as JSON; at most "
            f"{_MAX_VALUE_LENGTH} are possible: put it into a config map"
        )
    return text


class EnvironmentLease:
    """One process's access to the Lease of an environment; a `RunRegistration` of its objects.

    Args:
        run: the id of the run.
        name: the environment, the same in all processes.
        maker: a readable name of this process.
        registration: the run's own; None where the cluster ends with the run.
        namespace: the namespace of the Lease.
        lifetime: seconds that it stays after its last use; None to end with the run.
    """

    def __init__(
        self,
        client: ApiClient,
        run: str,
        name: str,
        maker: str,
        *,
        registration: RunRegistration | None = None,
        namespace: str = LEASE_NAMESPACE,
        lifetime: float | None = None,
    ) -> None:
        self._session = ApiSession.of(client)
        self._user = run
        self._run = run if lifetime is None else ENVIRONMENTS_RUN
        self._lifetime = lifetime
        self._environment = name
        self._maker = maker
        self._registration = registration
        self._namespace = namespace
        self._nonce = "environment-" + hashlib.sha256(name.encode()).hexdigest()[:16]
        self._name = run_lease_name(self._run, self._nonce)
        self._holder = f"{socket.gethostname()}_{os.getpid()}_{os.urandom(4).hex()}"
        self._lock = threading.Lock()
        self._making = False
        self._renewals: LeaseRenewer | None = None

    def place(self) -> str:
        """Return namespace/name of the Lease."""
        return f"{self._namespace}/{self._name}"

    def record(self, kind: str) -> None:
        """Add a kind to the Lease before its first object is created."""

        def add(lease: Mapping[str, Any]) -> dict[str, Any] | None:
            kinds = [
                kind_name for kind_name in _notes(lease).get(_KINDS, "").split(",") if kind_name
            ]
            if kind in kinds:
                return None
            return {"metadata": {"annotations": {_KINDS: ",".join([*kinds, kind])}}}

        self._change(add)

    def acquire_namespace_quota(self, name: str, seconds: float) -> str:
        """Return "" once the namespace may be created, or the refusal after `seconds`."""
        if self._registration is None:
            return ""
        return self._registration.acquire_namespace_quota(name, seconds)

    def join(
        self,
        deadline: Deadline,
        failed: int,
        report: Callable[[str], object] = lambda line: None,
        check: Callable[[EnvironmentState], str] = lambda state: "",
    ) -> EnvironmentState:
        """Return the state once this process must make the environment, or another one has.

        The state is `making` for the process that makes it.

        Args:
            deadline: for another process to make it.
            failed: the last attempt that failed and that this process has seen: it is followed by
                another one.
            report: called with one line if another process makes it.
            check: returns why one that stays must be made again, as a sentence; "" to use it.

        Raises:
            ClusterError: the Lease cannot be used, or the deadline has passed.
        """
        if self._registration is not None and not self._registration.place():
            scope = "run" if self._lifetime is None else "cluster"
            raise ClusterError(
                f"environment {self._environment} of scope {scope} needs the right to create and "
                f"update Leases in namespace {self._namespace}; or give it the scope session"
            )
        clock = self._session.clock
        last, since, reported = "", clock.monotonic(), ""
        while True:
            try:
                lease = self._read(deadline)
                version = str(((lease or {}).get("metadata") or {}).get("resourceVersion"))
                if version != last:
                    last, since = version, clock.monotonic()
                is_dead = clock.monotonic() - since >= _DURATION
                state = self._use(lease, check, deadline)
                if state is None:
                    continue
                if self._is_to_make(lease, state, failed, is_dead=is_dead):
                    if self._take(lease, state.attempt + 1, deadline):
                        return replace(
                            state, name="making", attempt=state.attempt + 1, maker=self._maker
                        )
                    continue
            except (ApiError, DeadlineExceeded) as error:
                if reported and isinstance(error, DeadlineExceeded):
                    raise self._late_error(reported) from error
                raise ClusterError(
                    f"the Lease {self.place()} of environment {self._environment} cannot be "
                    f"used: {error}"
                ) from error
            if state.name == "making":
                why, pause = f"{state.maker} is making it", _POLL_INTERVAL
            elif state.reason:
                why, pause = state.reason, _USE_INTERVAL
            else:
                return state
            if why != reported:
                report(f"environment {self._environment}: {why}")
                reported = why
            if deadline.remaining <= pause:
                raise self._late_error(why)
            clock.sleep(pause)

    def _is_to_make(
        self,
        lease: Mapping[str, Any] | None,
        state: EnvironmentState,
        failed: int,
        *,
        is_dead: bool,
    ) -> bool:
        """Return whether this process may make the environment.

        Args:
            failed: as for `join`.
            is_dead: whether the process that makes it counts as dead.
        """
        if lease is None or (state.name == "making" and is_dead):
            return True
        if state.name in ("failed", "skipped"):
            return state.attempt <= failed or not self._is_of_run(lease)
        return bool(state.reason) and not state.is_known

    def _late_error(self, why: str) -> ClusterError:
        return ClusterError(
            f"environment {self._environment} was not ready in time: {why} (Lease {self.place()})"
        )

    def _is_of_run(self, lease: Mapping[str, Any] | None) -> bool:
        """Return whether this run has made the environment, or tried to."""
        if self._lifetime is None or lease is None:
            return True
        return bool(json.loads(_notes(lease).get(_STATE) or "{}").get("run") == self._user)

    def _use(
        self,
        lease: Mapping[str, Any] | None,
        check: Callable[[EnvironmentState], str],
        deadline: Deadline,
    ) -> EnvironmentState | None:
        """Return the state of an environment; one that stays has this run among its users now.

        It has a reason if it must be made again, and is known while another run prevents that.
        None if another process has changed the Lease meanwhile.
        """
        state = _read_state(lease)
        if lease is None or self._lifetime is None or state.name != "ready":
            return state
        place = self._registration.place() if self._registration is not None else ""
        users = _read_users(lease)
        if _REMOVED in _notes(lease):
            # Its objects may be gone, also if this run has used it.
            return replace(state, reason="a janitor has removed it")
        if place in users:
            return replace(state, is_known=True)
        reason = check(state)
        living = [user for user in users if is_run_alive(self._session, user, deadline)]
        if reason and living:
            used = f"{reason}, and the run with the Lease {living[0]} uses it"
            return replace(state, reason=used, is_known=True)
        if reason:
            return replace(state, reason=reason)
        change = {
            "metadata": {
                "resourceVersion": lease["metadata"]["resourceVersion"],
                "annotations": self._use_notes([*living, place]),
            }
        }
        try:
            self._patch(change, deadline.at_most(_REQUEST_TIMEOUT))
        except ApiError as error:
            if error.status not in (404, 409):
                raise
            return None
        return state

    def _use_notes(self, users: list[str]) -> dict[str, str]:
        expires = self._session.clock.time() + (self._lifetime or 0.0)
        return {_USERS: ",".join(users), _EXPIRES: format_time(expires)}

    def publish(self, namespace: str, uid: str, value: str, record: str = "") -> bool:
        """Record that the environment is ready; return False if that was not possible.

        Raises:
            ClusterError: the record of one that stays is too large.
        """
        if len(record) > _MAX_RECORD_LENGTH:
            raise ClusterError(
                f"environment {self._environment} cannot stay: its inputs and objects take "
                f"{len(record)} characters, and at most {_MAX_RECORD_LENGTH} are possible; "
                "give it the scope run, or make several of it"
            )
        notes = {_VALUE: value} if self._lifetime is None else {_VALUE: value, _RECORD: record}
        return self._finish({"name": "ready", "namespace": namespace, "uid": uid}, notes)

    def fail(self, reason: str, *, skipped: bool = False) -> None:
        """Record that the environment could not be made, or is skipped."""
        self._finish({"name": "skipped" if skipped else "failed"}, {_VALUE: reason})

    def abandon(self) -> None:
        """Let another process make the environment at once."""
        self._finish({"name": "failed", "attempt": 0}, {_VALUE: "it was interrupted"})

    def stop(self) -> None:
        """Stop renewing."""
        if self._renewals is not None:
            self._renewals.stop()
            self._renewals.join(_REQUEST_TIMEOUT)

    def _take(self, lease: Mapping[str, Any] | None, attempt: int, deadline: Deadline) -> bool:
        """Create or take over the Lease; return False if another process was faster."""
        state = {"name": "making", "attempt": attempt, "maker": self._maker}
        notes: dict[str, str | None] = {_STATE: json.dumps(state), _VALUE: ""}
        if self._lifetime is not None:
            state |= {"run": self._user, "made": format_time(self._session.clock.time())}
            place = self._registration.place() if self._registration is not None else ""
            notes |= {_STATE: json.dumps(state), _REMOVED: None, **self._use_notes([place])}
        now = format_micro_time(self._session.clock.time())
        spec = {"holderIdentity": self._holder, "renewTime": now, "acquireTime": now}
        try:
            if lease is None:
                given = {name: text for name, text in notes.items() if text is not None}
                manifest = self._manifest(given, spec)
                request_with_retry(
                    lambda deadline: self._session.create(
                        LEASES, manifest, self._namespace, deadline=deadline
                    ),
                    deadline.at_most(_REQUEST_TIMEOUT),
                )
            else:
                change = {
                    "metadata": {
                        "resourceVersion": lease["metadata"]["resourceVersion"],
                        "annotations": notes,
                    },
                    "spec": spec,
                }
                self._patch(change, deadline.at_most(_REQUEST_TIMEOUT))
        except ApiError as error:
            if error.status not in (404, 409):
                raise
            # The answer to an earlier try may have been lost.
            current_lease = self._read(deadline)
            if ((current_lease or {}).get("spec") or {}).get("holderIdentity") != self._holder:
                return False
        self._making = True
        self._renewals = LeaseRenewer(
            "kwait environment",
            self._renew,
            _RENEW_INTERVAL,
            self._session.clock,
            # Another process has taken over.
            lambda error: not isinstance(error, ClusterError),
        )
        self._renewals.start()
        return True

    def _renew(self) -> None:
        renewed = format_micro_time(self._session.clock.time())
        self._change(lambda lease: {"spec": {"renewTime": renewed}})

    def _finish(self, state: Mapping[str, Any], notes: Mapping[str, str]) -> bool:
        """Record the end of the making; return False if another process took over."""

        def change(lease: Mapping[str, Any]) -> dict[str, Any]:
            stored_state = json.loads(_notes(lease).get(_STATE) or "{}")
            return {
                "metadata": {
                    "annotations": {_STATE: json.dumps({**stored_state, **state}), **notes}
                }
            }

        if self._renewals is not None:
            self._renewals.stop()
        try:
            self._change(change)
        except (KwaitError, DeadlineExceeded):
            # Without an answer another process takes over in the end.
            return False
        finally:
            self._making = False
        return True

    def _change(self, build: Callable[[Mapping[str, Any]], dict[str, Any] | None]) -> None:
        """Change the Lease as it is; repeated if another process changes it at the same time.

        Raises:
            ClusterError: this process makes the environment, and another one took over.
            ApiError: refused.
            DeadlineExceeded: no answer in time.
        """
        limit = self._session.availability.limit_cleanup(_REQUEST_TIMEOUT)
        deadline = Deadline.after(limit, self._session.clock)
        with self._lock:
            while True:
                lease = self._read(deadline)
                holder = ((lease or {}).get("spec") or {}).get("holderIdentity")
                if lease is None or (self._making and holder != self._holder):
                    raise ClusterError(
                        f"environment {self._environment} was taken over by another process, as "
                        f"this one had not renewed its Lease {self.place()} for "
                        f"{format_duration(_DURATION)}"
                    )
                change = build(lease)
                if change is None:
                    return
                change.setdefault("metadata", {})["resourceVersion"] = lease["metadata"][
                    "resourceVersion"
                ]
                try:
                    self._patch(change, deadline)
                except ApiError as error:
                    if error.status != 409 or deadline.expired:
                        raise
                else:
                    return

    def _patch(self, change: Mapping[str, Any], deadline: Deadline) -> None:
        request_with_retry(
            lambda deadline: self._session.patch(
                LEASES, self._name, change, self._namespace, deadline=deadline
            ),
            deadline,
        )

    def _read(self, deadline: Deadline) -> dict[str, Any] | None:
        try:
            return request_with_retry(
                lambda deadline: self._session.get(
                    LEASES, self._name, self._namespace, deadline=deadline
                ),
                deadline.at_most(_REQUEST_TIMEOUT),
            )
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def _manifest(self, notes: Mapping[str, str], spec: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {
                "name": self._name,
                "labels": {LABEL_MANAGED_BY: MANAGED_BY, LABEL_RUN: run_label_value(self._run)},
                "annotations": {
                    ANNOTATION_PREFIX + "run": self._run,
                    ANNOTATION_PREFIX + "nonce": self._nonce,
                    **({ANNOTATION_PREFIX + "ended": "shared"} if self._lifetime is None else {}),
                    ANNOTATION_PREFIX + "environment": self._environment,
                    **notes,
                },
            },
            "spec": {**spec, "leaseDurationSeconds": math.ceil(_DURATION)},
        }


def _notes(lease: Mapping[str, Any]) -> dict[str, str]:
    return (lease.get("metadata") or {}).get("annotations") or {}


def _read_users(lease: Mapping[str, Any]) -> list[str]:
    return [user for user in _notes(lease).get(_USERS, "").split(",") if user]


def _read_state(lease: Mapping[str, Any] | None) -> EnvironmentState:
    if lease is None:
        return EnvironmentState("", 0, "")
    notes = _notes(lease)
    state: dict[str, Any] = json.loads(notes.get(_STATE) or "{}")
    return EnvironmentState(
        str(state.get("name", "making")),
        int(state.get("attempt", 1)),
        str(state.get("maker", "another process")),
        str(state.get("namespace", "")),
        str(state.get("uid", "")),
        notes.get(_VALUE, ""),
        notes.get(_RECORD, ""),
        kinds=tuple(filter(None, notes.get(_KINDS, "").split(","))),
        made=parse_time_or_none(state.get("made")) or 0.0,
    )
