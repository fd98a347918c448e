"""Namespaces of a run: how they are named and labelled, when they are ready, how they go away."""

from __future__ import annotations

import hashlib
import re
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_kwait.api.resource import NAMESPACES
from pytest_kwait.api.session import Session
from pytest_kwait.clock import Deadline, rfc3339
from pytest_kwait.engine.creation import create
from pytest_kwait.engine.error_policy import retrying
from pytest_kwait.errors import ApiError, ClusterError, KwaitError
from pytest_kwait.suite.belongings import Belonging, delete_by_uid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kubernetes.client import ApiClient

    from pytest_kwait.api.resource import Resource
    from pytest_kwait.suite.heartbeat import Pulse

__all__ = [
    "LABEL_MANAGED_BY",
    "LABEL_OWNER",
    "LABEL_RUN",
    "LABEL_SHARD",
    "MANAGED_BY",
    "NOTE",
    "Namespaces",
    "Owner",
    "kept_notes",
    "lease_name",
    "run_digest",
]

MANAGED_BY = "pytest-kwait"
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
LABEL_RUN = "pytest-kwait/run"
LABEL_OWNER = "pytest-kwait/owner"
LABEL_SHARD = "pytest-kwait/shard"
NOTE = "pytest-kwait/"
"""What the names of all annotations begin with."""

LIFETIME = 24 * 3600.0
"""Seconds after which a namespace that nobody deleted may be taken for left behind."""

_LONGEST = 63
_LONGEST_RUN = 24


@dataclass(frozen=True, slots=True)
class Owner:
    """Who a namespace is for; no two owners of any run have the same name.

    Args:
        run: the id of the run.
        test: the id of the test, class, module or session, or the name given to the factory.
        title: what of it a reader should see in the name.
        worker: the xdist worker; empty without xdist.
        shard: the part of the suite that this machine runs; empty without shards.
        attempt: 1 for the first namespace of this test, 2 when it runs again.
        nonce: keeps apart runs that were given the same id; random for each process.
        pulse: says in the cluster that the run lives; None where the cluster ends with the run.
    """

    run: str
    test: str
    title: str
    worker: str = ""
    shard: str = ""
    attempt: int = 1
    nonce: str = ""
    pulse: Pulse | None = field(default=None, compare=False, repr=False)

    @property
    def name(self) -> str:
        """A DNS label: run, shard, worker, the title as far as it fits, attempt, a hash of all."""
        head = "-".join(
            filter(
                None, ("kwait", self.run[:_LONGEST_RUN].strip("-"), _slug(self.shard), self.worker)
            )
        )
        attempt = str(self.attempt) if self.attempt > 1 else ""
        tail = "-".join(filter(None, (attempt, self.digest[:8])))
        title = _slug(self.title)[: _LONGEST - len(head) - len(tail) - 2].strip("-")
        return "-".join(filter(None, (head, title, tail)))

    @property
    def digest(self) -> str:
        """A hash of everything that makes this owner different from others."""
        return _digest(self.run, self.shard, self.worker, self.test, str(self.attempt), self.nonce)

    @property
    def labels(self) -> dict[str, str]:
        """The labels of what belongs to this owner: hashes, as names hold what labels must not."""
        labels = {LABEL_RUN: run_digest(self.run), LABEL_OWNER: _digest(self.test)[:16]}
        if self.shard:
            labels[LABEL_SHARD] = _slug(self.shard)[:_LONGEST].strip("-")
        return labels

    def annotations(self, now: float, heartbeat: str = "") -> dict[str, str]:
        """Return the same to read, and when what belongs to this owner has expired.

        Args:
            now: seconds since the epoch.
            heartbeat: namespace/name of the Lease that says whether the run lives; empty for none.
        """
        readable = {
            "run": self.run,
            "shard": self.shard,
            "worker": self.worker,
            "test": self.test,
            "attempt": str(self.attempt),
            "nonce": self.nonce,
            "heartbeat": heartbeat,
            "expires": rfc3339(now + LIFETIME),
        }
        return {NOTE + name: value for name, value in readable.items() if value}

    def seal(self, resource: Resource, namespace: str | None, name: str) -> str:
        """A hash that ties an object to this owner: a copy of it elsewhere does not fit.

        Args:
            resource: its kind.
            namespace: where it is; None for cluster-scoped kinds.
            name: its name; what a name is generated from with a `*`.
        """
        return _digest(self.digest, resource.qualified, namespace or "", name)[:32]

    def manifest(self, now: float, heartbeat: str = "") -> dict[str, Any]:
        """Return the namespace to create.

        Args:
            now: seconds since the epoch.
            heartbeat: namespace/name of the Lease that says whether the run lives; empty for none.
        """
        seal = {NOTE + "seal": self.seal(NAMESPACES, None, self.name)}
        return {
            "apiVersion": NAMESPACES.api_version,
            "kind": NAMESPACES.kind,
            "metadata": {
                "name": self.name,
                "labels": {LABEL_MANAGED_BY: MANAGED_BY, **self.labels},
                "annotations": self.annotations(now, heartbeat) | seal,
            },
        }


class Namespaces:
    """The namespaces that this process made and has not deleted.

    Args:
        client: the client to make and delete them with.
        timeouts: seconds by name of the timeout table.
    """

    def __init__(self, client: ApiClient, timeouts: Mapping[str, float]) -> None:
        self._client = client
        self._session = Session.of(client)
        self._timeouts = timeouts
        self._made: dict[str, Belonging] = {}

    def make(self, owner: Owner, options: Mapping[str, Any]) -> str:
        """Create the namespace of an owner and return its name once pods can start in it.

        Args:
            owner: whom it is for.
            options: options of the waits for the default ServiceAccount and the root CA.

        Raises:
            ApiError: refused by the server.
            WaitTimeout: the namespace did not get what every namespace gets; it is deleted.
        """
        from pytest_kwait.resources.namespaces import (
            wait_for_default_service_account,
            wait_for_kube_root_ca,
        )

        # The sign of life first: no janitor is to see a namespace without it.
        heartbeat = owner.pulse.place() if owner.pulse is not None else ""
        made = create(
            self._session,
            NAMESPACES,
            owner.manifest(self._session.clock.time(), heartbeat),
            None,
            self._deadline("single_call"),
        )
        name = str(made["metadata"]["name"])
        self._made[name] = Belonging(NAMESPACES, None, name, made["metadata"]["uid"])
        try:
            # Without them a pod is refused, or starts without a way to trust the API server.
            limit = {"timeout": self._timeouts["service_account_provision"]}
            for provided in (wait_for_default_service_account, wait_for_kube_root_ca):
                provided(self._client, name, **{**options, **limit})
        except KwaitError:
            self.delete(name)
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
            retrying(
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
        problem = delete_by_uid(self._session, belonging, self._deadline("pod_get"))
        return f"namespace {name} could not be deleted: {problem}" if problem else None

    def keep(self, name: str) -> str:
        """Leave a namespace that was made here; return how to look into it.

        Its expiry starts anew, from when somebody could begin to look.
        """
        belonging = self._made.pop(name, None)
        if belonging is not None:
            notes = kept_notes(self._session.clock.time())
            retrying(
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

    def _deadline(self, timeout: str) -> Deadline:
        return Deadline.after(self._timeouts[timeout], self._session.clock)


def run_digest(run: str) -> str:
    """Return the value of the label that all of a run's objects carry."""
    return _digest(run)[:16]


def lease_name(run: str, nonce: str) -> str:
    """Return the name of the Lease that says whether a run lives."""
    return "-".join(filter(None, ("kwait", run[:_LONGEST_RUN].strip("-"), _digest(run, nonce)[:8])))


def kept_notes(now: float) -> dict[str, str]:
    """Return the annotations of what is left on purpose, and for how long.

    Args:
        now: seconds since the epoch.
    """
    return {NOTE + "kept": "true", NOTE + "expires": rfc3339(now + LIFETIME)}


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
