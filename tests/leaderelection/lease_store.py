"""Leases kept in memory, with what the API server promises of their resourceVersion."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from pytest_kwait.errors import ApiError

if TYPE_CHECKING:
    from pytest_kwait.client.resource import Resource
    from pytest_kwait.clock import Deadline

Obj = dict[str, Any]


class LeaseStore:
    """Leases by name: who writes must have seen what is there."""

    def __init__(self) -> None:
        self.objects: dict[str, Obj] = {}
        self.writes = 0

    @property
    def lease(self) -> Obj | None:
        """The first Lease, if any."""
        return next(iter(self.objects.values()), None)

    @property
    def holder(self) -> str:
        return str((self.lease or {}).get("spec", {}).get("holderIdentity") or "")

    def list(self) -> Any:
        items = [SimpleNamespace(object=copy.deepcopy(lease)) for lease in self.objects.values()]
        return SimpleNamespace(items=items)

    def get(self, name: str = "") -> Obj:
        """Return a Lease; the first one without a name."""
        return copy.deepcopy(self._find(name or next(iter(self.objects), "")))

    def create(self, obj: Obj) -> Obj:
        if obj["metadata"]["name"] in self.objects:
            raise ApiError("it is there", status=409, reason="AlreadyExists")
        return self.put(obj)

    def replace(self, obj: Obj) -> Obj:
        metadata = obj["metadata"]
        self._check(metadata["name"], "resourceVersion", metadata["resourceVersion"])
        return self.put(obj)

    def delete(self, name: str, uid: str, version: str | None) -> Obj:
        self._check(name, "uid", uid)
        if version is not None:
            self._check(name, "resourceVersion", version)
        return self.objects.pop(name)

    def put(self, obj: Obj) -> Obj:
        """Write it whatever is there."""
        name = obj["metadata"]["name"]
        self.writes += 1
        uid = self.objects[name]["metadata"]["uid"] if name in self.objects else f"u{self.writes}"
        made = copy.deepcopy(obj)
        made["metadata"] |= {"uid": uid, "resourceVersion": str(self.writes)}
        self.objects[name] = made
        return self.get(name)

    def _find(self, name: str) -> Obj:
        if name not in self.objects:
            raise ApiError("no such lease", status=404, reason="NotFound")
        return self.objects[name]

    def _check(self, name: str, field: str, value: str) -> None:
        if self._find(name)["metadata"][field] != value:
            raise ApiError("it was changed", status=409, reason="Conflict")


class StoreSession:
    """The requests of one client; notes their verbs."""

    def __init__(self, store: LeaseStore) -> None:
        self.store = store
        self.verbs: list[str] = []

    def list(
        self, resource: Resource, namespace: str, *, label_selector: str, deadline: Deadline
    ) -> Any:
        return self.ask("list", self.store.list, deadline)

    def get(self, resource: Resource, name: str, namespace: str, *, deadline: Deadline) -> Any:
        return self.ask("get", lambda: self.store.get(name), deadline)

    def create(self, resource: Resource, obj: Obj, namespace: str, *, deadline: Deadline) -> Any:
        return self.ask("create", lambda: self.store.create(obj), deadline)

    def replace(self, resource: Resource, obj: Obj, namespace: str, *, deadline: Deadline) -> Any:
        return self.ask("update", lambda: self.store.replace(obj), deadline)

    def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str,
        *,
        uid: str,
        resource_version: str | None,
        deadline: Deadline,
    ) -> Any:
        call = lambda: self.store.delete(name, uid, resource_version)  # noqa: E731
        return self.ask("delete", call, deadline)

    def ask(self, verb: str, call: Any, deadline: Deadline) -> Any:
        self.verbs.append(verb)
        return call()
