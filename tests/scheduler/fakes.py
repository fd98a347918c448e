"""A fake API server with pods and nodes that records writes."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from pytest_kwait.client.responses import Item, ObjectList, decode_object
from pytest_kwait.client.session import ApiSession
from pytest_kwait.errors import ApiError
from pytest_kwait.testing import FakeClock
from tests.cache.fakes import PATIENCE, LiveWatch, event, raw
from tests.objects import pod

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kwait.client.resource import Resource

Obj = dict[str, Any]


def queued_pod(name: str, *, scheduler: str = "mine", version: int = 1, **fields: Any) -> Obj:
    """Return a pod that waits for its scheduler."""
    defaults: Obj = {
        "namespace": "default",
        "resourceVersion": str(version),
        "generation": 1,
        "schedulerName": scheduler,
        "status": {"phase": fields.pop("phase", "Pending")},
    }
    return pod(name, **{"cpu": "100m", **defaults, **fields})


class FakeApiServer(ApiSession):
    """A session whose server is a dictionary; bindings place pods as the real server does."""

    def __init__(self, *objects: Obj, clock: FakeClock | None = None) -> None:
        self.clock = self.fake_clock = clock or FakeClock(auto=False)
        self.objects: dict[tuple[str, str], Obj] = {}
        self.watches: dict[str, list[LiveWatch]] = {}
        self.written: list[tuple[str, str, Obj]] = []
        """Method, path and body of each request."""
        self.answers: dict[str, Callable[[Obj], object]] = {}
        """Functions by path suffix, called with the request's body; they may raise."""
        self._changed = threading.Condition()
        self._version = 100
        for obj in objects:
            self.put(obj)

    def put(self, obj: Obj) -> Obj:
        """Have an object, new or changed, and show it."""
        with self._changed:
            self._version += 1
            metadata = {**obj["metadata"], "resourceVersion": str(self._version)}
            obj = {**obj, "metadata": metadata}
            key = (obj["kind"], metadata["name"])
            known = key in self.objects
            self.objects[key] = obj
            self._show("MODIFIED" if known else "ADDED", obj)
        return obj

    def remove(self, kind: str, name: str) -> None:
        """Have an object no longer, and show that."""
        with self._changed:
            self._show("DELETED", self.objects.pop((kind, name)))

    def pod(self, name: str) -> Obj:
        return self.objects["Pod", name]

    def until(self, holds: Callable[[], object]) -> None:
        """Return once something is so, in real time."""
        with self._changed:
            for _ in range(int(PATIENCE * 100)):
                if holds():
                    return
                self._changed.wait(0.01)
        raise AssertionError(self.written)

    def sent(self, part: str) -> list[Obj]:
        """Return the bodies of the requests whose path has this part."""
        return [body for _, path, body in list(self.written) if part in path]

    def list(self, resource: Resource, *_: Any, type: Any = None, **__: Any) -> ObjectList:
        with self._changed:
            found = [obj for (kind, _), obj in self.objects.items() if kind == resource.kind]
            items = [Item(decode_object(raw(obj), type), raw(obj)) for obj in found]
            return ObjectList(items, str(self._version))

    def watch(self, resource: Resource, *_: Any, **more: Any) -> Any:
        watch = LiveWatch(more.get("type"))
        with self._changed:
            self.watches.setdefault(resource.kind, []).append(watch)
            after = int(more["resource_version"])
            for obj in self.objects.values():
                version = int(obj["metadata"]["resourceVersion"])
                if obj["kind"] == resource.kind and version > after:
                    watch.put(event("ADDED", obj))
        return watch

    def create(self, resource: Resource, obj: Mapping[str, Any], *args: Any, **more: Any) -> Obj:
        namespace = args[0] if args else more.get("namespace")
        path = resource.path(namespace, more.get("name"), more.get("subresource"))
        self._request("POST", path, dict(obj))
        if more.get("subresource") == "binding":
            bound = self.pod(more["name"])
            self.put({**bound, "spec": {**bound["spec"], "nodeName": obj["target"]["name"]}})
        return dict(obj)

    def get(self, resource: Resource, name: str, *args: Any, **_: Any) -> Obj:
        with self._changed:
            known = self.objects.get((resource.kind, name))
        if known is None:
            raise ApiError(f'{resource.plural} "{name}" not found', status=404)
        return known

    def patch(self, resource: Resource, name: str, patch: Any, *args: Any, **more: Any) -> Obj:
        path = resource.path(args[0] if args else None, name, more.get("subresource"))
        self._request("PATCH", path, patch)
        wanted = (patch.get("metadata") or {}).get("resourceVersion")
        known = self.objects.get((resource.kind, name))
        if wanted and known and known["metadata"]["resourceVersion"] != wanted:
            raise ApiError("the object has been modified", status=409, reason="Conflict")
        if more.get("subresource") == "status" and ("Pod", name) in self.objects:
            known = self.pod(name)
            self.put({**known, "status": {**known["status"], **patch["status"]}})
        return {}

    def _request(self, method: str, path: str, body: Obj) -> None:
        answer = next((call for end, call in self.answers.items() if path.endswith(end)), None)
        with self._changed:
            self.written.append((method, path, body))
            self._changed.notify_all()
        if answer is not None:
            answer(body)

    def _show(self, type_: str, obj: Obj) -> None:
        for watch in self.watches.get(obj["kind"], ()):
            watch.put(event(type_, obj))
        self._changed.notify_all()
