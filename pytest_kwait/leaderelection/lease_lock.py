"""A lock on a Lease: its resourceVersion decides between concurrent writers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.validation import check_name, check_namespace
from pytest_kwait.client.resource import LEASES
from pytest_kwait.client.session import Session
from pytest_kwait.errors import ApiError, InvalidArgument
from pytest_kwait.leaderelection.resource_lock import LeaderElectionRecord

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.clock import Deadline

__all__ = ["LeaseLock"]


class LeaseLock:
    """A Lease of the API server as the lock of an election; for one elector.

    Args:
        namespace: the namespace of the Lease.
        identity: the candidate; unique among candidates.

    Raises:
        InvalidArgument: an invalid name, or an identity that is not a string.

    Source: resourcelock/leaselock.go LeaseLock.
    """

    def __init__(self, client: ApiClient, namespace: str, name: str, identity: str) -> None:
        if not isinstance(identity, str):
            raise InvalidArgument("identity", identity, "use a string")
        self._namespace = check_namespace(namespace)
        self._name = check_name("name", name)
        self._identity = identity
        self._session = Session.of(client)
        self._lease: dict[str, Any] | None = None

    @property
    def identity(self) -> str:
        """The candidate that uses this lock."""
        return self._identity

    def describe(self) -> str:
        """Return namespace and name of the Lease."""
        return f"{self._namespace}/{self._name}"

    def get(self, *, deadline: Deadline) -> LeaderElectionRecord | None:
        """Return the stored record; None without a Lease.

        Raises:
            ApiError: the request failed.
            DeadlineExceeded: there was no answer in time.
        """
        try:
            lease = self._session.get(LEASES, self._name, self._namespace, deadline=deadline)
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        self._lease = dict(lease)
        spec = lease.get("spec") or {}
        return LeaderElectionRecord(
            holder_identity=spec.get("holderIdentity") or "",
            lease_duration_seconds=spec.get("leaseDurationSeconds") or 0,
            acquire_time=spec.get("acquireTime"),
            renew_time=spec.get("renewTime"),
            leader_transitions=spec.get("leaseTransitions") or 0,
            # Times may repeat if a wall clock is set back; versions do not.
            version=lease["metadata"].get("resourceVersion") or "",
        )

    def create(self, record: LeaderElectionRecord, *, deadline: Deadline) -> None:
        """Create the Lease; a conflict if another candidate was first."""
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": _spec(record),
        }
        created = self._session.create(LEASES, body, self._namespace, deadline=deadline)
        self._lease = dict(created)

    def update(self, record: LeaderElectionRecord, *, deadline: Deadline) -> None:
        """Update the last read Lease; a conflict if another candidate was first.

        Raises:
            InvalidArgument: it has been neither read nor created.
        """
        if self._lease is None:
            raise InvalidArgument("lease", None, "call get or create before update")
        body = {**self._lease, "spec": {**(self._lease.get("spec") or {}), **_spec(record)}}
        updated = self._session.replace(LEASES, body, self._namespace, deadline=deadline)
        self._lease = dict(updated)


def _spec(record: LeaderElectionRecord) -> dict[str, Any]:
    return {
        "holderIdentity": record.holder_identity,
        "leaseDurationSeconds": record.lease_duration_seconds,
        "acquireTime": record.acquire_time,
        "renewTime": record.renew_time,
        "leaseTransitions": record.leader_transitions,
    }
