"""Namespaces of a run: quota, creation, readiness, deletion.

The quota limits how many namespaces a run has at a time, and how fast it creates them.
Namespaces that are being deleted count, since they still hold objects; kept ones do not.
The count is requested from the server only once the limit may be reached.

The server deletes namespaces while tests run, and goes on after the run. At the end of a run
only the last few are left, or those with finalizers: their blocking objects and finalizers are
reported once their deletion lasts, by this run or by the janitor of a later one.
"""

from __future__ import annotations

import re
import shlex
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.conditions import get_condition
from pytest_kwait.apimachinery.times import format_duration, parse_time_or_none
from pytest_kwait.client.resource import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS
from pytest_kwait.client.responses import decode_object
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.active_waits import ACTIVE_WAITS, ActiveWait
from pytest_kwait.engine.failure.redaction import learn_namespace
from pytest_kwait.engine.failure.wait_report import Timeline
from pytest_kwait.engine.retry import create_once, request_with_retry
from pytest_kwait.errors import ApiError, ClusterError, InvalidArgument, KwaitError
from pytest_kwait.framework.cluster.namespaces import describe_remaining
from pytest_kwait.suite.cleanup.owned_objects import (
    ANNOTATION_PREFIX,
    LABEL_RUN,
    CreatedObject,
    Owner,
    delete_by_uid,
    kept_annotations,
    run_label_value,
)
from pytest_kwait.suite.cleanup.run_lease import read_server_time
from pytest_kwait.wait.context import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sized

    from kubernetes.client import ApiClient

    from pytest_kwait.client.session import TimeBudget
    from pytest_kwait.suite.cleanup.owned_objects import RunRegistration
    from pytest_kwait.suite.config.values import PodSecurityLevel

MAX_SHOWN = 5
"""Maximum number of namespaces, and of objects in each, listed by name."""

_QUOTA_POLL_INTERVAL = 0.5
_UNLISTED_SECONDS = 5.0
"""Seconds after which a namespace that was never listed counts as deleted.

Less than a real deletion takes. A namespace whose creation was retried for longer counts once it is
listed.
"""
_POLL_INTERVAL = 0.5
_SLOW_POLL_INTERVAL = 2.0
_REPORT_AFTER = 1.0
"""Seconds after which the wait is reported."""

_REQUEST_TIMEOUT = 15.0
"""Seconds for finding out why namespaces remain."""

_LOOK_TIMEOUT = 5.0
"""Seconds for the request of a look without waiting."""

_USUAL_SECONDS = 60.0
"""Seconds that a deletion may take before a look without waiting reports what holds it.

Pods have 30 seconds to terminate.
"""

_KIND_LEFT = re.compile(r"([^\s.,]+)\.(\S*) has \d+ resource instances")

_DEFAULT_OBJECTS = ((CONFIG_MAPS, "kube-root-ca.crt"), (SERVICE_ACCOUNTS, "default"))
"""Objects that every namespace gets, the last to come first."""

_DEFAULT_OBJECTS_DELAY = 0.25
"""Seconds in which a new namespace usually gets them."""

_DELETION_TIMEOUT = 2.0
"""Minimum seconds for the request that deletes a namespace, however late it is."""

_MAX_NAME_ATTEMPTS = 3
"""Maximum number of names to try if each is taken or being deleted."""


class NamespaceQuota:
    """Limits number and rate of the namespaces of one run.

    Args:
        session: used by this object alone.
        run: the id of the run.
        limit: the maximum number at a time.
        rate: the maximum number created per second, which is also the burst.
        sources: the sources of limit and rate.
        has_controllers: whether namespaces that are being deleted will be gone, and count.
    """

    def __init__(
        self,
        session: ApiSession,
        run: str,
        *,
        limit: int,
        rate: float,
        sources: tuple[str, str],
        has_controllers: bool = True,
    ) -> None:
        self._session = session
        self._clock = session.clock
        self._selector = f"{LABEL_RUN}={run_label_value(run)}"
        self._limit = limit
        self._rate = rate
        self._sources = sources
        self._has_controllers = has_controllers
        self._lock = threading.Lock()
        self._created: dict[str, float] = {}
        self._seen: set[str] = set()
        self._going = 0
        self._burst = max(1.0, rate)
        self._credit = self._burst
        self._credited = self._clock.monotonic()
        self.problem: str | None = None
        """Why the number is not limited, in one line; None if it is."""

    def acquire(self, name: str, seconds: float) -> str:
        """Return "" once a namespace may be created, or the reason for refusal.

        Args:
            seconds: the limit; 0 for an immediate answer without a request.
        """
        deadline = Deadline.after(seconds, self._clock)
        # The lock is released within its holder's limit.
        if not self._lock.acquire(timeout=min(deadline.remaining, threading.TIMEOUT_MAX)):
            return self._reason()
        try:
            while len(self._created) >= self._limit and self.problem is None:
                self._count(deadline)
                if len(self._created) < self._limit or self.problem is not None:
                    break
                if deadline.remaining <= _QUOTA_POLL_INTERVAL:
                    return self._reason()
                self._clock.sleep(_QUOTA_POLL_INTERVAL)
            if not self._paced(deadline):
                return self._reason()
            if self.problem is None:
                self._created[name] = self._clock.monotonic()
            return ""
        finally:
            self._lock.release()

    def _count(self, deadline: Deadline) -> None:
        """Forget namespaces that are gone or kept."""
        if deadline.expired:
            return
        listed_at = self._clock.monotonic()
        try:
            answer = request_with_retry(
                lambda deadline: self._session.request(
                    "GET",
                    NAMESPACES.path(None),
                    query={"labelSelector": self._selector},
                    deadline=deadline,
                ),
                deadline,
            )
        except (ApiError, DeadlineExceeded) as error:
            if not (isinstance(error, ApiError) and error.status == 403):
                # The server may answer next time.
                return
            self.problem = (
                f"nothing bounds how many namespaces there are at a time, as they cannot be "
                f"listed: {error}"
            )
            return
        listed = {
            namespace["metadata"]["name"]: namespace["metadata"]
            for namespace in decode_object(answer.data).get("items") or []
        }
        self._seen |= listed.keys() & self._created.keys()
        there = {
            name: metadata
            for name, metadata in listed.items()
            if (metadata.get("annotations") or {}).get(ANNOTATION_PREFIX + "kept") != "true"
            and (self._has_controllers or not metadata.get("deletionTimestamp"))
        }
        self._created = {
            name: created_at
            for name, created_at in self._created.items()
            if name in there
            or (name not in self._seen and listed_at - created_at < _UNLISTED_SECONDS)
        }
        self._seen &= self._created.keys()
        self._going = sum(bool(there[name].get("deletionTimestamp")) for name in self._seen)

    def _paced(self, deadline: Deadline) -> bool:
        """Wait for the rate limit; return False if it would take too long."""
        now = self._clock.monotonic()
        self._credit = min(self._burst, self._credit + (now - self._credited) * self._rate)
        self._credited = now
        pause = (1.0 - self._credit) / self._rate
        if pause > deadline.remaining:
            return False
        self._clock.sleep(pause)
        self._credit -= 1.0
        return True

    def _reason(self) -> str:
        limit, rate = self._sources
        return (
            f"the run has {len(self._created)} namespaces, {self._going} of them being deleted, "
            f"and may have {self._limit} at a time (--kwait-namespace-limit from {limit}) and make "
            f"{self._rate:g} a second (--kwait-namespace-rate from {rate}); to see them: "
            f"kubectl get namespaces -l {self._selector}"
        )


class NamespaceDeletions:
    """Namespaces of one run whose deletion was requested.

    Args:
        run: the id of the run.
        going: their UIDs by name.
    """

    def __init__(self, client: ApiClient, run: str, going: Mapping[str, str]) -> None:
        self._session = ApiSession.of(client)
        self._run = run
        self._going = dict(going)
        self._listed = True
        self._server_time: float | None = None

    def wait(self, limit: float, report: Callable[[str], object]) -> list[str]:
        """Wait until they are gone; return lines about those that remain at the limit.

        Args:
            limit: seconds.
            report: called with one line if it takes long.

        Returns:
            a line for each remaining namespace.
        """
        clock = self._session.clock
        started = clock.monotonic()
        limit = self._session.availability.limit_cleanup(limit)
        deadline = Deadline.after(limit, clock)
        reported = False
        try:
            namespaces = self._left(deadline)
            while namespaces and deadline.remaining > _POLL_INTERVAL:
                waited = clock.monotonic() - started
                if not reported and waited >= _REPORT_AFTER:
                    report(
                        f"waiting up to {format_duration(limit)} until {_format_count(namespaces)} "
                        "gone"
                    )
                    reported = True
                clock.sleep(
                    _POLL_INTERVAL if waited < 10 * _SLOW_POLL_INTERVAL else _SLOW_POLL_INTERVAL
                )
                try:
                    namespaces = self._left(deadline)
                except (ApiError, DeadlineExceeded):
                    # The limit came during the request: the last result still holds.
                    if deadline.remaining > 0:
                        raise
        except (ApiError, DeadlineExceeded) as error:
            return [f"whether {_format_count(self._going)} gone cannot be seen: {error}"]
        if not namespaces:
            return []
        lines = [
            f"{_format_count(namespaces)} not gone after {format_duration(limit)}; the server is "
            "still "
            "deleting:"
        ]
        return [*lines, *self._describe(namespaces)]

    def look(self) -> list[str]:
        """Return lines about those that are not gone now, without waiting for them.

        For deletions that were requested a minute ago, the lines name the remaining objects.
        """
        clock = self._session.clock
        limit = self._session.availability.limit_cleanup(_LOOK_TIMEOUT)
        try:
            namespaces = self._left(Deadline.after(limit, clock))
        except (ApiError, DeadlineExceeded) as error:
            return [f"whether {_format_count(self._going)} gone cannot be seen: {error}"]
        now = clock.time() if self._server_time is None else self._server_time
        late = [
            namespace
            for namespace in namespaces
            if _seconds_deleting(namespace, now) >= _USUAL_SECONDS
        ]
        lines = []
        if len(namespaces) > len(late):
            lines.append(
                f"{_format_count(namespaces[len(late) :])} still being deleted; later runs and "
                "`kwait janitor` report what stays (--kwait-deletion-wait waits)"
            )
        if late:
            lines.append(
                f"{_format_count(late)} not gone after {format_duration(_USUAL_SECONDS)}; the "
                "server is still deleting:"
            )
            lines += self._describe(late)
        return lines

    def _describe(self, namespaces: list[dict[str, Any]]) -> Iterator[str]:
        """Yield a line for each remaining namespace, with what holds it."""
        asking = Deadline.after(_REQUEST_TIMEOUT, self._session.clock)
        for namespace in namespaces[:MAX_SHOWN]:
            name, notes = namespace["metadata"]["name"], namespace["metadata"].get("annotations")
            test = (notes or {}).get(ANNOTATION_PREFIX + "test")
            title = f"{name} ({test})" if test else name
            yield f"  {title}: {'; '.join(self._holders(namespace, asking))}"
        if len(namespaces) > MAX_SHOWN:
            yield f"  and {len(namespaces) - MAX_SHOWN} more"

    def _left(self, deadline: Deadline) -> list[dict[str, Any]]:
        """Return those that still exist, by UID."""
        there = self._by_label(deadline) if self._listed else None
        if there is None:
            self._listed = False
            there = list(filter(None, (self._one(name, deadline) for name in self._going)))
        namespaces = [
            namespace
            for namespace in there
            if self._going.get(namespace["metadata"]["name"]) == namespace["metadata"]["uid"]
        ]
        self._going = {
            namespace["metadata"]["name"]: namespace["metadata"]["uid"] for namespace in namespaces
        }
        return namespaces

    def _by_label(self, deadline: Deadline) -> list[dict[str, Any]] | None:
        """Return all namespaces of the run by one request; None if listing is refused."""
        query = {"labelSelector": f"{LABEL_RUN}={run_label_value(self._run)}"}
        try:
            answer = request_with_retry(
                lambda deadline: self._session.request(
                    "GET", NAMESPACES.path(None), query=query, deadline=deadline
                ),
                deadline,
            )
        except ApiError as error:
            if error.status == 403:
                return None
            raise
        self._server_time = read_server_time(answer.headers)
        return decode_object(answer.data).get("items") or []

    def _one(self, name: str, deadline: Deadline) -> dict[str, Any] | None:
        try:
            return request_with_retry(
                lambda deadline: self._session.get(NAMESPACES, name, deadline=deadline), deadline
            )
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def _holders(self, namespace: dict[str, Any], deadline: Deadline) -> Iterator[str]:
        """Return why a namespace remains: objects with finalizers, else its status conditions."""
        name = namespace["metadata"]["name"]
        holders: list[str] = []
        for plural, group in _remaining_kinds(namespace):
            try:
                holders += self._objects(f"{plural}.{group}" if group else plural, name, deadline)
            except (KwaitError, DeadlineExceeded):
                # Its status has kinds and numbers, reported below.
                continue
        yield from holders[:MAX_SHOWN]
        if len(holders) > MAX_SHOWN:
            yield f"and {len(holders) - MAX_SHOWN} more objects"
        if (
            not holders
            or namespace["metadata"].get("finalizers")
            or _has_deletion_problem(namespace)
        ):
            yield describe_remaining(namespace)

    def _objects(self, kind: str, namespace: str, deadline: Deadline) -> list[str]:
        def get_pods(deadline: Deadline) -> list[dict[str, Any]]:
            resource = self._session.resolve(kind, deadline=deadline)
            if not resource.namespaced:
                raise InvalidArgument("kind", kind, "a kind that is in namespaces")
            listed = self._session.list(resource, namespace, deadline=deadline)
            return [{**item.object, "kind": resource.kind} for item in listed.items]

        return [_finalizers_of(obj) for obj in request_with_retry(get_pods, deadline)]


def _finalizers_of(obj: Mapping[str, Any]) -> str:
    metadata = obj["metadata"]
    title = f"{obj['kind'].lower()}/{metadata['name']}"
    finalizers = [str(finalizer) for finalizer in metadata.get("finalizers") or ()]
    if finalizers:
        noun = "finalizer" if len(finalizers) == 1 else "finalizers"
        return f"{title} is held by {noun} {', '.join(finalizers)}"
    if not metadata.get("deletionTimestamp"):
        return f"{title} is not being deleted"
    return f"{title} is being deleted"


def _remaining_kinds(namespace: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return plural and group of the kinds remaining in a namespace."""
    condition = get_condition(namespace, "NamespaceContentRemaining") or {}
    if condition.get("status") != "True":
        return []
    return _KIND_LEFT.findall(condition.get("message") or "")


def _has_deletion_problem(namespace: Mapping[str, Any]) -> bool:
    return any(
        str(condition.get("type")).endswith("Failure") and condition.get("status") == "True"
        for condition in (namespace.get("status") or {}).get("conditions") or ()
    )


def _seconds_deleting(namespace: Mapping[str, Any], now: float) -> float:
    """Return the seconds since the deletion of a namespace was requested."""
    since = parse_time_or_none(namespace["metadata"].get("deletionTimestamp"))
    return 0.0 if since is None else now - since


def _format_count(items: Sized) -> str:
    number = len(items)
    return "1 namespace is" if number == 1 else f"{number} namespaces are"


class Namespaces:
    """The namespaces that this process created and has not deleted.

    Args:
        timeouts: returns the timeout table in force: seconds by name.
        pod_security: the enforced level; None for the cluster's default.
        time_budget: returns the time left to the current test; None without a limit.
        has_controllers: whether the cluster gives each namespace its default objects.
    """

    def __init__(
        self,
        client: ApiClient,
        timeouts: Callable[[], Mapping[str, float]],
        pod_security: PodSecurityLevel | None = None,
        time_budget: Callable[[], TimeBudget | None] = lambda: None,
        *,
        has_controllers: bool = True,
    ) -> None:
        self._client = client
        self._session = ApiSession.of(client)
        self._timeouts = timeouts
        self._pod_security = pod_security
        self._time_budget = time_budget
        self._has_controllers = has_controllers
        self._made: dict[str, CreatedObject] = {}
        self.going: dict[str, str] = {}
        """The UIDs, by name, of namespaces created here whose deletion was requested."""

    def make(
        self,
        owner: Owner,
        options: Mapping[str, Any],
        *,
        labels: Mapping[str, str] | None = None,
        pod_security: PodSecurityLevel | None = None,
    ) -> str:
        """Create the namespace of an owner; return its name once pods can start in it.

        If the quota is used up, this waits until a namespace is gone. It ends before the limit of
        the current test.

        Args:
            options: options of the waits for the default ServiceAccount and the root CA.
            labels: further labels.
            pod_security: the enforced level; None for the run's setting.

        Raises:
            ApiError: the server cannot be reached, or refuses the credentials.
            ClusterError: the server refuses it, does not answer in time, or the quota is used
                up.
            WaitTimeout: it did not get its default objects; it is deleted again.
        """
        from pytest_kwait.framework.cluster.namespaces import (
            wait_for_default_service_account,
            wait_for_kube_root_ca,
        )

        # The Lease first: otherwise a janitor could see a namespace without one.
        heartbeat = ""
        if owner.registration is not None:
            heartbeat = owner.registration.place()
            self._acquire_quota(owner.registration, owner.name)
        level = pod_security or self._pod_security
        made = self._created(
            owner, heartbeat, {**(labels or {}), **(level.labels if level is not None else {})}
        )
        name = str(made["metadata"]["name"])
        self._made[name] = CreatedObject(NAMESPACES, None, name, made["metadata"]["uid"])
        note = ""
        try:
            # Without them pods are refused, or cannot trust the API server.
            if self._has_controllers and not self._has_default_objects(name):
                for provided in (wait_for_default_service_account, wait_for_kube_root_ca):
                    limit, note = self._limit("service_account_provision")
                    provided(self._client, name, **{**options, "timeout": limit})
        except KwaitError as error:
            for note_line in filter(None, (note, self.delete(name))):
                error.add_note(note_line)
            raise
        return name

    @property
    def client(self) -> ApiClient:
        """The client of the namespaces."""
        return self._client

    def existing(self, name: str, source: str) -> str:
        """Return the name of an existing namespace that was not created here.

        Args:
            source: the source of the name.

        Raises:
            ClusterError: it does not exist.
            ApiError: refused.
        """
        try:
            request_with_retry(
                lambda deadline: self._session.get(NAMESPACES, name, deadline=deadline),
                self._deadline("single_call"),
            )
        except ApiError as error:
            if error.status != 404:
                raise
            raise ClusterError(
                f"namespace={name!r} (from {source}) is not in the cluster: create it, or leave "
                "the setting out to have a namespace made"
            ) from None
        return name

    def adopt(self, name: str, uid: str) -> str:
        """Treat a namespace that another process of the run created as made here."""
        self._made[name] = CreatedObject(NAMESPACES, None, name, uid)
        return name

    def uid_of(self, name: str) -> str:
        """Return the UID of a namespace created here; empty for another one."""
        made = self._made.get(name)
        return "" if made is None else made.uid

    def owns(self, name: str) -> bool:
        """Return whether a namespace was created here, and is deleted with everything in it."""
        return name in self._made

    def delete(self, name: str) -> str | None:
        """Request the deletion of a namespace created here; return the failure, with its name."""
        belonging = self._made.pop(name, None)
        if belonging is None:
            return None
        limit = max(self._limit("pod_get")[0], _DELETION_TIMEOUT)
        limit = self._session.availability.limit_cleanup(limit)
        # What outlives the namespace may print them later, such as a shared operator. The server's
        # cache is as good: it lags by milliseconds, and a consistent list would wait up to 0.1 s.
        learn_namespace(
            self._session,
            name,
            deadline=Deadline.after(limit, self._session.clock),
            resource_version="0",
        )
        problem = delete_by_uid(
            self._session, belonging, Deadline.after(limit, self._session.clock)
        )
        if problem is None:
            self.going[name] = belonging.uid
        if problem and problem == self._session.availability.problem:
            return problem
        return f"namespace {name} could not be deleted: {problem}" if problem else None

    def release(self, name: str) -> None:
        """Leave a namespace created here to the end of the run."""
        self._made.pop(name, None)

    def keep(self, name: str) -> str:
        """Keep a namespace created here; return the command to inspect it.

        Its expiry is counted from now.
        """
        belonging = self._made.pop(name, None)
        if belonging is not None:
            notes = kept_annotations(self._session.clock.time())
            request_with_retry(
                lambda deadline: self._session.patch(
                    NAMESPACES, name, {"metadata": {"annotations": notes}}, deadline=deadline
                ),
                self._deadline("pod_get"),
            )
        return self.hint(name)

    def hint(self, name: str) -> str:
        """Return the command that shows the contents of a namespace."""
        return shlex.join(
            ["kubectl", *self._session.kubectl_args, "get", "all,events", "--namespace", name]
        )

    def _has_default_objects(self, name: str) -> bool:
        """Return whether a new namespace gets its default objects within a moment.

        A few requests on an open connection are cheaper than a new watch.
        """
        time_budget = self._time_budget()
        moment = (
            _DEFAULT_OBJECTS_DELAY
            if time_budget is None
            else time_budget.fit(_DEFAULT_OBJECTS_DELAY)[0]
        )
        deadline = Deadline.after(moment, self._session.clock)
        pause = _DEFAULT_OBJECTS_DELAY / 64
        for resource, object_name in _DEFAULT_OBJECTS:
            while True:
                try:
                    self._session.get(resource, object_name, name, deadline=deadline)
                except (ApiError, DeadlineExceeded) as error:
                    if not isinstance(error, ApiError) or error.status != 404:
                        return False
                else:
                    break
                if deadline.remaining <= pause:
                    return False
                deadline.clock.sleep(pause)
                pause *= 1.5
        return True

    def _acquire_quota(self, registration: RunRegistration, name: str) -> None:
        reason = registration.acquire_namespace_quota(name, 0.0)
        if not reason:
            return
        deadline = self._deadline("namespace_deletion")
        started, timeline = deadline.clock.monotonic(), Timeline()
        timeline.record(0.0, reason)
        waiting = ActiveWait(
            f"namespace {name}",
            "fit into the limit on namespaces",
            deadline,
            timeline,
            started,
            limit=deadline.at - started,
        )
        with ACTIVE_WAITS.entered(waiting):
            reason = registration.acquire_namespace_quota(name, deadline.remaining)
            waiting.record_outcome("timed out" if reason else "met")
        if reason:
            waited = format_duration(round(deadline.clock.monotonic() - started, 1))
            raise ClusterError(f"namespace {name} could not be created within {waited}: {reason}")

    def _created(self, owner: Owner, heartbeat: str, labels: Mapping[str, str]) -> dict[str, Any]:
        """Create a namespace under the first free name of an owner."""
        seconds, note = self._limit("single_call")
        deadline = Deadline.after(seconds, self._session.clock)
        taken: ApiError | None = None
        for number in range(1, _MAX_NAME_ATTEMPTS + 1):
            manifest = owner.manifest(self._session.clock.time(), heartbeat, labels)
            try:
                made = create_once(self._session, NAMESPACES, manifest, None, deadline)
            except ApiError as error:
                # Not found: the object of an earlier attempt has been deleted meanwhile.
                if error.reason == "AlreadyExists" or error.status == 404:
                    taken = error
                elif 400 <= error.status < 500 and error.status != 401:
                    raise ClusterError(_forbidden_message(owner, error)) from error
                else:
                    if note:
                        error.add_note(note)
                    raise
            except DeadlineExceeded as error:
                silence = ClusterError(
                    f"there was no answer whether namespace {owner.name} was made, which "
                    f"{owner.test} needs: {error}"
                )
                if note:
                    silence.add_note(note)
                raise silence from error
            else:
                metadata = made["metadata"]
                stored_seal = (metadata.get("annotations") or {}).get(ANNOTATION_PREFIX + "seal")
                own_seal = manifest["metadata"]["annotations"][ANNOTATION_PREFIX + "seal"]
                if not metadata.get("deletionTimestamp") and stored_seal in (None, own_seal):
                    return made
            owner = replace(owner, nonce=f"{owner.nonce}.{number}")
        raise ClusterError(
            f"no namespace could be made for {owner.test}: {_MAX_NAME_ATTEMPTS} names were "
            "taken, or belonged "
            f"to namespaces that are being deleted{f'; the last answer: {taken}' if taken else ''}"
        )

    def removal_command(self, run: str) -> str:
        """Return the command that removes kept namespaces of a run that has ended."""
        return shlex.join(
            ["kwait", "janitor", "--run-id", run, "--kept", *self._session.kubectl_args]
        )

    def _limit(self, timeout: str) -> tuple[float, str]:
        """Return a limit of the timeout table, cut to end before the test's own, with a note."""
        time_budget, limit = self._time_budget(), self._timeouts()[timeout]
        return (limit, "") if time_budget is None else time_budget.fit(limit)

    def _deadline(self, timeout: str) -> Deadline:
        return Deadline.after(self._limit(timeout)[0], self._session.clock)


def _forbidden_message(owner: Owner, error: ApiError) -> str:
    """Return the message about a refused namespace, with a way out."""
    # This is the text of authorization; admission plugins name themselves.
    if error.status == 403 and f'cannot create resource "{NAMESPACES.plural}"' in error.message:
        return (
            f"the run may not create namespaces, and {owner.test} needs one: grant its user "
            "`create namespaces`, or give --kwait-namespace NAME: tests then share the namespace "
            f"of that name, which must exist, and what they make in it is removed one by one. The "
            f"server said: {error}"
        )
    return f"the cluster refused namespace {owner.name}, which {owner.test} needs: {error}"
