"""Namespaces of a run: quota, creation, readiness, deletion.

The quota limits how many namespaces a run has at a time, and how fast it creates them.
Namespaces that are being deleted count, since they still hold objects; kept ones do not.
The server is asked for the count only once the limit may be reached.

The server deletes namespaces while tests go on. At the end of a run only the last few are
left, or those with finalizers: their blocking objects and finalizers are reported.
"""

from __future__ import annotations

import re
import shlex
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.conditions import get_condition
from pytest_kwait.apimachinery.durations import format_duration
from pytest_kwait.client.resource import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS
from pytest_kwait.client.responses import decode_object
from pytest_kwait.client.session import Session
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.active_waits import ACTIVE_WAITS, ActiveWait
from pytest_kwait.engine.failure.timeline import Timeline
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
from pytest_kwait.wait.errors import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sized

    from kubernetes.client import ApiClient

    from pytest_kwait.suite.bound_wait import TimeBudget
    from pytest_kwait.suite.cleanup.owned_objects import RunRegistration
    from pytest_kwait.suite.config.parsers import PodSecurity

__all__ = ["NamespaceDeletions", "NamespaceQuota", "Namespaces"]

_QUOTA_POLL_INTERVAL = 0.5
_UNLISTED_SECONDS = 5.0
"""Seconds after which a namespace that was never seen is taken for one that is gone again.

Less than a real one takes to go; that of a request that was tried again for longer is counted when
it is seen.
"""


class NamespaceQuota:
    """Lets namespaces of one run be made, one after the other.

    Args:
        session: the requests; for this object alone.
        run: the id of the run.
        limit: how many there may be at a time.
        rate: how many may be made in a second; as many at once after a pause.
        sources: where limit and rate were given.
    """

    def __init__(
        self, session: Session, run: str, *, limit: int, rate: float, sources: tuple[str, str]
    ) -> None:
        self._session = session
        self._clock = session.clock
        self._selector = f"{LABEL_RUN}={run_label_value(run)}"
        self._limit = limit
        self._rate = rate
        self._sources = sources
        self._lock = threading.Lock()
        self._taken: dict[str, float] = {}
        self._seen: set[str] = set()
        self._going = 0
        self._burst = max(1.0, rate)
        self._credit = self._burst
        self._credited = self._clock.monotonic()
        self.problem: str | None = None
        """Why there is no bound on the number, in one line; None where there is one."""

    def take(self, name: str, seconds: float) -> str:
        """Return once a namespace may be made, or why it may not; empty if it may.

        Args:
            name: its name.
            seconds: how long that may last; 0 asks nobody, and tells how things are.
        """
        deadline = Deadline.after(seconds, self._clock)
        # Whoever holds the lock is next; it gives up in time.
        if not self._lock.acquire(timeout=deadline.remaining):
            return self._reason()
        try:
            while len(self._taken) >= self._limit and self.problem is None:
                self._count(deadline)
                if len(self._taken) < self._limit or self.problem is not None:
                    break
                if deadline.remaining <= _QUOTA_POLL_INTERVAL:
                    return self._reason()
                self._clock.sleep(_QUOTA_POLL_INTERVAL)
            if not self._paced(deadline):
                return self._reason()
            if self.problem is None:
                self._taken[name] = self._clock.monotonic()
            return ""
        finally:
            self._lock.release()

    def _count(self, deadline: Deadline) -> None:
        """Forget those that are gone, and those that are kept."""
        if deadline.expired:
            return
        asked = self._clock.monotonic()
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
            each["metadata"]["name"]: each["metadata"]
            for each in decode_object(answer.data).get("items") or []
        }
        self._seen |= listed.keys() & self._taken.keys()
        there = {
            name: metadata
            for name, metadata in listed.items()
            if (metadata.get("annotations") or {}).get(ANNOTATION_PREFIX + "kept") != "true"
        }
        self._taken = {
            name: taken
            for name, taken in self._taken.items()
            if name in there or (name not in self._seen and asked - taken < _UNLISTED_SECONDS)
        }
        self._seen &= self._taken.keys()
        self._going = sum(bool(there[name].get("deletionTimestamp")) for name in self._seen)

    def _paced(self, deadline: Deadline) -> bool:
        """Return True once one more may be made in this second, False if that is too late."""
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
            f"the run has {len(self._taken)} namespaces, {self._going} of them being deleted, and "
            f"may have {self._limit} at a time (--kwait-namespace-limit from {limit}) and make "
            f"{self._rate:g} a second (--kwait-namespace-rate from {rate}); to see them: "
            f"kubectl get namespaces -l {self._selector}"
        )


MAX_SHOWN = 5
"""How many namespaces, and how many objects in each, are told by name."""

_POLL_INTERVAL = 0.5
_SLOW_POLL_INTERVAL = 2.0
_REPORT_AFTER = 1.0
"""Seconds after which it is said that the run waits."""

_REQUEST_TIMEOUT = 15.0
"""Seconds that finding out what holds them may take."""

_KIND_LEFT = re.compile(r"([^\s.,]+)\.(\S*) has \d+ resource instances")


class NamespaceDeletions:
    """The namespaces of one run that were asked to go.

    Args:
        client: the client.
        run: the id of the run.
        going: their UIDs by name.
    """

    def __init__(self, client: ApiClient, run: str, going: Mapping[str, str]) -> None:
        self._session = Session.of(client)
        self._run = run
        self._going = dict(going)
        self._listed = True

    def wait(self, limit: float, tell: Callable[[str], object]) -> list[str]:
        """Return once they are gone, or the limit has come.

        Args:
            limit: seconds that it may take.
            tell: called with one line if it takes longer than a moment.

        Returns:
            what to say of those that are still there, a line each; nothing if there are none.
        """
        clock = self._session.clock
        started = clock.monotonic()
        deadline = Deadline.after(limit, clock)
        told = False
        try:
            left = self._left(deadline)
            while left and deadline.remaining > _POLL_INTERVAL:
                waited = clock.monotonic() - started
                if not told and waited >= _REPORT_AFTER:
                    tell(f"waiting up to {format_duration(limit)} until {_format_count(left)} gone")
                    told = True
                clock.sleep(
                    _POLL_INTERVAL if waited < 10 * _SLOW_POLL_INTERVAL else _SLOW_POLL_INTERVAL
                )
                try:
                    left = self._left(deadline)
                except (ApiError, DeadlineExceeded):
                    # What was seen last still holds where the limit came while we asked again.
                    if deadline.remaining > 0:
                        raise
        except (ApiError, DeadlineExceeded) as error:
            return [f"whether {_format_count(self._going)} gone cannot be seen: {error}"]
        if not left:
            return []
        lines = [
            f"{_format_count(left)} not gone after {format_duration(limit)}; the server is still "
            "deleting:"
        ]
        asking = Deadline.after(_REQUEST_TIMEOUT, clock)
        for namespace in left[:MAX_SHOWN]:
            name = namespace["metadata"]["name"]
            lines.append(f"  {name}: {'; '.join(self._holders(namespace, asking))}")
        if len(left) > MAX_SHOWN:
            lines.append(f"  and {len(left) - MAX_SHOWN} more")
        return lines

    def _left(self, deadline: Deadline) -> list[dict[str, Any]]:
        """Return those that are still there, whatever of the same names came after them."""
        there = self._by_label(deadline) if self._listed else None
        if there is None:
            self._listed = False
            there = list(filter(None, (self._one(name, deadline) for name in self._going)))
        left = [
            each
            for each in there
            if self._going.get(each["metadata"]["name"]) == each["metadata"]["uid"]
        ]
        self._going = {each["metadata"]["name"]: each["metadata"]["uid"] for each in left}
        return left

    def _by_label(self, deadline: Deadline) -> list[dict[str, Any]] | None:
        """Return all of the run in one request; None if they are not shown."""
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
        """Say what holds a namespace: objects with their finalizers, else what its status says."""
        name = namespace["metadata"]["name"]
        found: list[str] = []
        for plural, group in _remaining_kinds(namespace):
            try:
                found += self._objects(f"{plural}.{group}" if group else plural, name, deadline)
            except (KwaitError, DeadlineExceeded):
                # Its status has the kind and the number, and is told below.
                continue
        yield from found[:MAX_SHOWN]
        if len(found) > MAX_SHOWN:
            yield f"and {len(found) - MAX_SHOWN} more objects"
        if not found or namespace["metadata"].get("finalizers") or _has_deletion_problem(namespace):
            yield describe_remaining(namespace)

    def _objects(self, kind: str, namespace: str, deadline: Deadline) -> list[str]:
        def ask(deadline: Deadline) -> list[dict[str, Any]]:
            resource = self._session.resolve(kind, deadline=deadline)
            if not resource.namespaced:
                raise InvalidArgument("kind", kind, "a kind that is in namespaces")
            listed = self._session.list(resource, namespace, deadline=deadline)
            return [{**each.object, "kind": resource.kind} for each in listed.items]

        return [_finalizers_of(each) for each in request_with_retry(ask, deadline)]


def _finalizers_of(obj: Mapping[str, Any]) -> str:
    metadata = obj["metadata"]
    title = f"{obj['kind'].lower()}/{metadata['name']}"
    finalizers = [str(each) for each in metadata.get("finalizers") or ()]
    if finalizers:
        noun = "finalizer" if len(finalizers) == 1 else "finalizers"
        return f"{title} is held by {noun} {', '.join(finalizers)}"
    if not metadata.get("deletionTimestamp"):
        return f"{title} is not being deleted"
    return f"{title} is being deleted"


def _remaining_kinds(namespace: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return plural and group of what is left in a namespace.

    Source: kube-controller-manager, namespace/deletion/status_condition_utils.go.
    """
    condition = get_condition(namespace, "NamespaceContentRemaining") or {}
    if condition.get("status") != "True":
        return []
    return _KIND_LEFT.findall(condition.get("message") or "")


def _has_deletion_problem(namespace: Mapping[str, Any]) -> bool:
    return any(
        str(each.get("type")).endswith("Failure") and each.get("status") == "True"
        for each in (namespace.get("status") or {}).get("conditions") or ()
    )


def _format_count(things: Sized) -> str:
    number = len(things)
    return "1 namespace is" if number == 1 else f"{number} namespaces are"


_DEFAULT_OBJECTS = ((CONFIG_MAPS, "kube-root-ca.crt"), (SERVICE_ACCOUNTS, "default"))
"""What every namespace gets, the last to come first."""

_DEFAULT_OBJECTS_DELAY = 0.25
"""Seconds in which a new namespace mostly has all of it."""

_DELETION_TIMEOUT = 2.0
"""Seconds that a request may take at least which lets a namespace go, however late it is."""

_MAX_NAME_ATTEMPTS = 3
"""How many names are tried where each is taken by somebody else, or on its way out."""


class Namespaces:
    """The namespaces that this process made and has not deleted.

    Args:
        client: the client to make and delete them with.
        timeouts: seconds by name of the timeout table.
        pod_security: what pods may do in them; None to leave it to the cluster.
        time_budget: what the limit of the test that runs leaves; None without one.
    """

    def __init__(
        self,
        client: ApiClient,
        timeouts: Mapping[str, float],
        pod_security: PodSecurity | None = None,
        time_budget: Callable[[], TimeBudget | None] = lambda: None,
    ) -> None:
        self._client = client
        self._session = Session.of(client)
        self._timeouts = timeouts
        self._pod_security = pod_security
        self._time_budget = time_budget
        self._made: dict[str, CreatedObject] = {}
        self.going: dict[str, str] = {}
        """The UIDs, by name, of those that were made here and asked to go."""

    def make(
        self,
        owner: Owner,
        options: Mapping[str, Any],
        *,
        labels: Mapping[str, str] | None = None,
        pod_security: PodSecurity | None = None,
    ) -> str:
        """Create the namespace of an owner and return its name once pods can start in it.

        Where the run has as many namespaces as it may, it waits until one of them is gone. All of
        it ends before the limit of the test that runs, with time left to tell why.

        Args:
            owner: whom it is for.
            options: options of the waits for the default ServiceAccount and the root CA.
            labels: labels that it is to have as well.
            pod_security: what pods may do in it; None for what they may in all.

        Raises:
            ApiError: the server cannot be reached, or does not know us.
            ClusterError: refused by the server, by its authorization or by what checks objects;
                there was no answer in time; or its turn did not come.
            WaitTimeout: the namespace did not get what every namespace gets; it is deleted.
        """
        from pytest_kwait.framework.cluster.namespaces import (
            wait_for_default_service_account,
            wait_for_kube_root_ca,
        )

        # The sign of life first: no janitor is to see a namespace without it.
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
            # Without them a pod is refused, or starts without a way to trust the API server.
            if not self._has_default_objects(name):
                for provided in (wait_for_default_service_account, wait_for_kube_root_ca):
                    limit, note = self._limit("service_account_provision")
                    provided(self._client, name, **{**options, "timeout": limit})
        except KwaitError as error:
            for said in filter(None, (note, self.delete(name))):
                error.add_note(said)
            raise
        return name

    @property
    def client(self) -> ApiClient:
        """The client that they are made with."""
        return self._client

    def existing(self, name: str, source: str) -> str:
        """Return the name of a namespace that is there and belongs to somebody else.

        Args:
            name: its name.
            source: where the name was given.

        Raises:
            ClusterError: there is none.
            ApiError: the server does not show it.
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

    def owns(self, name: str) -> bool:
        """Whether a namespace was made here, so that everything in it goes with it."""
        return name in self._made

    def delete(self, name: str) -> str | None:
        """Ask for the deletion of a namespace that was made here; None if it is on its way.

        Returns:
            what kept it, with its name; None for success and for namespaces of others.
        """
        belonging = self._made.pop(name, None)
        if belonging is None:
            return None
        limit = max(self._limit("pod_get")[0], _DELETION_TIMEOUT)
        problem = delete_by_uid(
            self._session, belonging, Deadline.after(limit, self._session.clock)
        )
        if problem is None:
            self.going[name] = belonging.uid
        return f"namespace {name} could not be deleted: {problem}" if problem else None

    def keep(self, name: str) -> str:
        """Leave a namespace that was made here; return how to look into it.

        Its expiry starts anew, from when somebody could begin to look.
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
        """Return the command that shows what is in a namespace."""
        return shlex.join(
            ["kubectl", *self._session.kubectl_args, "get", "all,events", "--namespace", name]
        )

    def _has_default_objects(self, name: str) -> bool:
        """Whether a new namespace has what it needs within a moment.

        It mostly has: a few looks on an open connection are cheaper than a watch on a new one.
        """
        time_budget = self._time_budget()
        moment = (
            _DEFAULT_OBJECTS_DELAY
            if time_budget is None
            else time_budget.fit(_DEFAULT_OBJECTS_DELAY)[0]
        )
        deadline = Deadline.after(moment, self._session.clock)
        pause = _DEFAULT_OBJECTS_DELAY / 64
        for resource, one in _DEFAULT_OBJECTS:
            while True:
                try:
                    self._session.get(resource, one, name, deadline=deadline)
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
            f"namespace {name}", "fit into the limit on namespaces", deadline, timeline, started
        )
        with ACTIVE_WAITS.entered(waiting):
            reason = registration.acquire_namespace_quota(name, deadline.remaining)
        if reason:
            waited = format_duration(round(deadline.clock.monotonic() - started, 1))
            raise ClusterError(f"namespace {name} could not be created within {waited}: {reason}")

    def _created(self, owner: Owner, heartbeat: str, labels: Mapping[str, str]) -> dict[str, Any]:
        """Create a namespace under the first of the owner's names that nobody else has."""
        seconds, note = self._limit("single_call")
        deadline = Deadline.after(seconds, self._session.clock)
        taken: ApiError | None = None
        for number in range(1, _MAX_NAME_ATTEMPTS + 1):
            manifest = owner.manifest(self._session.clock.time(), heartbeat, labels)
            try:
                made = create_once(self._session, NAMESPACES, manifest, None, deadline)
            except ApiError as error:
                # Not found: what answered for an earlier try has gone meanwhile.
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
                theirs = (metadata.get("annotations") or {}).get(ANNOTATION_PREFIX + "seal")
                ours = manifest["metadata"]["annotations"][ANNOTATION_PREFIX + "seal"]
                if not metadata.get("deletionTimestamp") and theirs in (None, ours):
                    return made
            owner = replace(owner, nonce=f"{owner.nonce}.{number}")
        raise ClusterError(
            f"no namespace could be made for {owner.test}: {_MAX_NAME_ATTEMPTS} names were "
            "taken, or belonged "
            f"to namespaces that are being deleted{f'; the last answer: {taken}' if taken else ''}"
        )

    def removal_command(self, run: str) -> str:
        """Return the command that removes what a run has kept, once it is over."""
        return shlex.join(
            ["kwait", "janitor", "--run-id", run, "--kept", *self._session.kubectl_args]
        )

    def _limit(self, timeout: str) -> tuple[float, str]:
        """Return a limit of the table that ends before the test's own; what to say of it then."""
        time_budget, asked = self._time_budget(), self._timeouts[timeout]
        return (asked, "") if time_budget is None else time_budget.fit(asked)

    def _deadline(self, timeout: str) -> Deadline:
        return Deadline.after(self._limit(timeout)[0], self._session.clock)


def _forbidden_message(owner: Owner, error: ApiError) -> str:
    """Say why there is no namespace, and what helps if nobody may make any."""
    # So says authorization; what checks objects says who it is, and why.
    if error.status == 403 and f'cannot create resource "{NAMESPACES.plural}"' in error.message:
        return (
            f"the run may not create namespaces, and {owner.test} needs one: grant its user "
            "`create namespaces`, or give --kwait-namespace NAME: tests then share the namespace "
            f"of that name, which must exist, and what they make in it is removed one by one. The "
            f"server said: {error}"
        )
    return f"the cluster refused namespace {owner.name}, which {owner.test} needs: {error}"
