"""Where a janitor looks: what runs have made, and their Leases, as far as the server shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.client.resource import LEASES
from pytest_kwait.client.responses import decode_object
from pytest_kwait.client.session import Session
from pytest_kwait.engine.retry import request_with_retry
from pytest_kwait.errors import ApiError, InvalidArgument
from pytest_kwait.suite.cleanup.leftovers import Leftover, SweepResult
from pytest_kwait.suite.cleanup.liveness import RunLease, read_run_lease
from pytest_kwait.suite.cleanup.owned_objects import (
    LABEL_MANAGED_BY,
    LABEL_RUN,
    MANAGED_BY,
    run_label_value,
)
from pytest_kwait.suite.cleanup.provenance import read_provenance
from pytest_kwait.suite.cleanup.run_lease import read_server_time

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.client.resource import Resource
    from pytest_kwait.clock import Deadline

__all__ = ["Scanner"]


class Scanner:
    """Asks a cluster for what carries our label, and believes only what fits together.

    Args:
        client: the client.
        namespace: where Leases are looked for if those of all namespaces are not shown.
        run: the id of the only run to look at; None for all.
    """

    def __init__(self, client: ApiClient, namespace: str, run: str | None) -> None:
        self._session = Session.of(client)
        self._namespace = namespace
        self._selector = LABEL_RUN if run is None else f"{LABEL_RUN}={run_label_value(run)}"
        self._lease_scope: str | None = None
        self.now: float | None = None
        """The server's time at its last answer; None if it does not tell."""

    def find(
        self,
        resource: Resource,
        namespace: str | None,
        sweep: SweepResult | None,
        deadline: Deadline,
    ) -> list[Leftover]:
        """Return what runs of ours have made of a kind; everywhere if that is shown."""
        scopes = [None, namespace] if resource.namespaced and namespace else [None]
        for scope in scopes:
            try:
                objects = self._list(resource, scope, self._selector, deadline)
            except ApiError as error:
                if error.status not in (403, 404, 405):
                    raise
                if scope == scopes[-1] and sweep is not None and error.status == 403:
                    sweep.problems.append(f"{resource.qualified} cannot be looked at: {error}")
                continue
            return self._ours(resource, scope, objects, sweep)
        return []

    def leases(self, deadline: Deadline) -> list[RunLease]:
        """Return the Leases of runs; those of one namespace if not all are shown."""
        selector = f"{self._selector},{LABEL_MANAGED_BY}={MANAGED_BY}"
        try:
            objects = self._list(LEASES, self._lease_scope, selector, deadline)
        except ApiError as error:
            if error.status != 403 or self._lease_scope is not None:
                raise
            self._lease_scope = self._namespace
            objects = self._list(LEASES, self._lease_scope, selector, deadline)
        return [lease for lease in map(read_run_lease, objects) if lease is not None]

    def look_up(
        self, place: str, leases: dict[str, RunLease], sweep: SweepResult, deadline: Deadline
    ) -> None:
        """Ask for one Lease that was not among those that were shown."""
        namespace, _, name = place.partition("/")
        try:
            obj = request_with_retry(
                lambda deadline: self._session.get(LEASES, name, namespace, deadline=deadline),
                deadline,
            )
        except (ApiError, InvalidArgument) as error:
            if isinstance(error, ApiError) and error.status == 404:
                return
            sweep.unknown[place] = str(error)
            return
        lease = read_run_lease(obj)
        if lease is None:
            sweep.unknown[place] = "it is not the Lease of a run"
        else:
            leases[place] = lease

    def resolve(self, kind: str, sweep: SweepResult, deadline: Deadline) -> Resource | None:
        """Return the kind that a run has noted; None if the server has it no more."""
        try:
            return request_with_retry(
                lambda deadline: self._session.resolve(kind, deadline=deadline), deadline
            )
        except InvalidArgument:
            # The kind is gone, and all objects with it.
            return None

    def _ours(
        self,
        resource: Resource,
        scope: str | None,
        objects: list[dict[str, Any]],
        sweep: SweepResult | None,
    ) -> list[Leftover]:
        found = []
        for obj in objects:
            if obj["metadata"].get("ownerReferences"):
                # It goes with its owner, and came by our label through it.
                continue
            provenance = read_provenance(resource, obj)
            if provenance is not None:
                found.append(Leftover.of(resource, scope, obj, provenance))
            elif sweep is not None and not (resource == LEASES and read_run_lease(obj)):
                sweep.foreign += 1
        return found

    def _list(
        self, resource: Resource, namespace: str | None, selector: str, deadline: Deadline
    ) -> list[dict[str, Any]]:
        path = resource.path(namespace)
        answer = request_with_retry(
            lambda deadline: self._session.request(
                "GET", path, query={"labelSelector": selector}, deadline=deadline
            ),
            deadline,
        )
        told = read_server_time(answer.headers)
        if told is not None:
            self.now = told
        items: list[dict[str, Any]] = decode_object(answer.data).get("items") or []
        return items
