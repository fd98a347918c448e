"""Namespaces of a run: how they are made, when they are ready, how they go away."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.durations import format_duration
from pytest_kwait.client.resource import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS
from pytest_kwait.client.session import Session
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.active_waits import ACTIVE_WAITS, ActiveWait
from pytest_kwait.engine.creation import create_once
from pytest_kwait.engine.failure.timeline import Timeline
from pytest_kwait.engine.retry import request_with_retry
from pytest_kwait.errors import ApiError, ClusterError, KwaitError
from pytest_kwait.suite.cleanup.belongings import CreatedObject, delete_by_uid
from pytest_kwait.suite.cleanup.owned_objects import ANNOTATION_PREFIX, Owner, kept_annotations
from pytest_kwait.wait.errors import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kubernetes.client import ApiClient

    from pytest_kwait.suite.bound_wait import TimeBudget
    from pytest_kwait.suite.cleanup.run_lease import RunRegistration
    from pytest_kwait.suite.config.pod_security import PodSecurity

__all__ = ["Namespaces"]

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
        allowance: what the limit of the test that runs leaves; None without one.
    """

    def __init__(
        self,
        client: ApiClient,
        timeouts: Mapping[str, float],
        pod_security: PodSecurity | None = None,
        allowance: Callable[[], TimeBudget | None] = lambda: None,
    ) -> None:
        self._client = client
        self._session = Session.of(client)
        self._timeouts = timeouts
        self._pod_security = pod_security
        self._allowance = allowance
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
        if owner.pulse is not None:
            heartbeat = owner.pulse.place()
            self._acquire_quota(owner.pulse, owner.name)
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
        allowance = self._allowance()
        moment = (
            _DEFAULT_OBJECTS_DELAY
            if allowance is None
            else allowance.fit(_DEFAULT_OBJECTS_DELAY)[0]
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

    def _acquire_quota(self, pulse: RunRegistration, name: str) -> None:
        reason = pulse.acquire_namespace_quota(name, 0.0)
        if not reason:
            return
        deadline = self._deadline("namespace_deletion")
        started, timeline = deadline.clock.monotonic(), Timeline()
        timeline.record(0.0, reason)
        waiting = ActiveWait(f"namespace {name}", "have its turn", deadline, timeline, started)
        with ACTIVE_WAITS.entered(waiting):
            reason = pulse.acquire_namespace_quota(name, deadline.remaining)
        if reason:
            waited = format_duration(round(deadline.clock.monotonic() - started, 1))
            raise ClusterError(f"it was not the turn of namespace {name} within {waited}: {reason}")

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
            f"no namespace could be made for {owner.test}: {_MAX_NAME_ATTEMPTS} names were taken, or belonged "
            f"to namespaces that are being deleted{f'; the last answer: {taken}' if taken else ''}"
        )

    def removal_command(self, run: str) -> str:
        """Return the command that removes what a run has kept, once it is over."""
        return shlex.join(
            ["kwait", "janitor", "--run-id", run, "--kept", *self._session.kubectl_args]
        )

    def _limit(self, timeout: str) -> tuple[float, str]:
        """Return a limit of the table that ends before the test's own; what to say of it then."""
        allowance, asked = self._allowance(), self._timeouts[timeout]
        return (asked, "") if allowance is None else allowance.fit(asked)

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
