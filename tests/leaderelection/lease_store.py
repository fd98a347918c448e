"""Leases kept in memory, with what the API server promises of their resourceVersion."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from pytest_kwait.errors import ApiError

if TYPE_CHECKING:
    from pytest_kwait.client.resource import Resource
    from pytest_kwait.clock import Deadline

Obj = dict[str, Any]


class LeaseStore:
    """One Lease, or none: whoever writes must have seen what is there."""

    def __init__(self) -> None:
        self.lease: Obj | None = None
        self.writes = 0

    def get(self) -> Obj:
        if self.lease is None:
            raise ApiError("no such lease", status=404, reason="NotFound")
        return copy.deepcopy(self.lease)

    def create(self, obj: Obj) -> Obj:
        if self.lease is not None:
            raise ApiError("it is there", status=409, reason="AlreadyExists")
        return self.put(obj)

    def replace(self, obj: Obj) -> Obj:
        if self.lease is None:
            raise ApiError("no such lease", status=404, reason="NotFound")
        if obj["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise ApiError("it was changed", status=409, reason="Conflict")
        return self.put(obj)

    def put(self, obj: Obj) -> Obj:
        """Write it whatever is there."""
        self.writes += 1
        self.lease = copy.deepcopy(obj)
        self.lease["metadata"]["resourceVersion"] = str(self.writes)
        return self.get()

    @property
    def holder(self) -> str:
        return str((self.lease or {}).get("spec", {}).get("holderIdentity") or "")


class StoreSession:
    """The requests of one candidate; notes their verbs."""

    def __init__(self, store: LeaseStore) -> None:
        self.store = store
        self.verbs: list[str] = []

    def get(self, resource: Resource, name: str, namespace: str, *, deadline: Deadline) -> Obj:
        return self.ask("get", self.store.get, deadline)

    def create(self, resource: Resource, obj: Obj, namespace: str, *, deadline: Deadline) -> Obj:
        return self.ask("create", lambda: self.store.create(obj), deadline)

    def replace(self, resource: Resource, obj: Obj, namespace: str, *, deadline: Deadline) -> Obj:
        return self.ask("update", lambda: self.store.replace(obj), deadline)

    def ask(self, verb: str, call: Any, deadline: Deadline) -> Obj:
        self.verbs.append(verb)
        answer: Obj = call()
        return answer


class StoreClient:
    """Stands for the official client; `ApiSession.of` gives its session."""

    def __init__(self, session: StoreSession) -> None:
        self.session = session
