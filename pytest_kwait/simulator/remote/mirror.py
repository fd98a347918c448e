"""A store that mirrors the objects of a real API server, and the reflectors that fill it.

Source: k8s.io/client-go tools/cache/reflector.go.
"""

from __future__ import annotations

import asyncio
import logging
import random
from bisect import bisect_left, insort
from typing import TYPE_CHECKING

import aiohttp

from pytest_kwait.clock import async_sleep
from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.objects import Obj, name_of, namespace_of, uid_of
from pytest_kwait.simulator.store import Change, ChangeType, Entry, Store, key_of

if TYPE_CHECKING:
    from pytest_kwait.simulator.remote.connection import Connection
    from pytest_kwait.simulator.scheme import Kind

_log = logging.getLogger(__name__)
# Seconds between two tries, doubling. Source: reflector.go, `NewReflectorWithOptions`.
_MIN_BACKOFF, _MAX_BACKOFF = 0.1, 30.0
_WATCH_SECONDS = 300
"""The shortest duration of a watch; the longest is twice as long. Source: `minWatchTimeout`."""


def collection_path(kind: Kind, namespace: str = "") -> str:
    """Return the URL path of a kind's objects; of all namespaces without one."""
    root = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"
    within = f"/namespaces/{namespace}" if namespace and kind.namespaced else ""
    return f"{root}{within}/{kind.plural}"


class MirrorStore(Store):
    """Objects under the revisions of a real API server.

    The same object arrives by the answers to our writes and by watches, in any order: only what is
    newer is a change. A deletion that was answered is final, whatever a watch still has to report.
    """

    def __init__(self) -> None:
        super().__init__()
        self._deleted: dict[str, str] = {}
        """The resources of objects whose deletion was answered, by UID, until a watch has it."""

    def set(self, resource: str, obj: Obj) -> Obj:
        """Store an object if it is newer than the present one; return the present one."""
        uid, key = uid_of(obj), key_of(name_of(obj), namespace_of(obj))
        revision = int(obj["metadata"]["resourceVersion"])
        if uid in self._deleted:
            return obj
        bucket = self._bucket(resource)
        old = bucket.entries.get(key)
        if old is not None and old.revision >= revision:
            return old.obj
        if old is not None and uid_of(old.obj) != uid:
            self._discard(resource, key, old.obj, revision)
            old = None
        entry = Entry(key, obj, revision)
        bucket.entries[key] = entry
        if old is None:
            insort(bucket.keys, key)
        self.revision = max(self.revision, revision)
        change: ChangeType = "ADDED" if old is None else "MODIFIED"
        self._record(resource, Change(change, revision, entry, old))
        return obj

    def discard_deleted(self, resource: str, obj: Obj) -> None:
        """Remove an object whose deletion was answered, with its last state."""
        if uid_of(obj) not in self._deleted and self._remove(resource, obj):
            self._deleted[uid_of(obj)] = resource

    def discard_watched(self, resource: str, obj: Obj) -> None:
        """Remove an object whose deletion a watch has reported, with its last state."""
        self._deleted.pop(uid_of(obj), None)
        self._remove(resource, obj)

    def replace(self, resource: str, objects: list[Obj]) -> None:
        """Store the objects of a list and remove all others of the resource."""
        for uid in [uid for uid, place in self._deleted.items() if place == resource]:
            del self._deleted[uid]
        listed = {key_of(name_of(obj), namespace_of(obj)) for obj in objects}
        for entry in self.entries(resource):
            if entry.key not in listed:
                self._remove(resource, entry.obj)
        for obj in objects:
            self.set(resource, obj)

    def _remove(self, resource: str, obj: Obj) -> bool:
        """Remove an object; return whether it was there."""
        key = key_of(name_of(obj), namespace_of(obj))
        stored_entry = self.get(resource, key)
        if stored_entry is None or uid_of(stored_entry.obj) != uid_of(obj):
            return False
        revision = max(stored_entry.revision, int(obj["metadata"]["resourceVersion"]))
        self._discard(resource, key, obj, revision)
        return True

    def _discard(self, resource: str, key: str, last: Obj, revision: int) -> None:
        bucket = self._bucket(resource)
        old = bucket.entries.pop(key)
        del bucket.keys[bisect_left(bucket.keys, key)]
        self.revision = max(self.revision, revision)
        self._record(resource, Change("DELETED", revision, Entry(key, last, revision), old))


class _TooOldError(Exception):
    """The revision of a watch is no longer kept: list again."""


class MirrorReflector:
    """Lists and watches the objects of one kind into a store.

    Args:
        connection: the server.
        store: where the objects go.
        kind: the kind, in a version that is served.
    """

    def __init__(self, connection: Connection, store: MirrorStore, kind: Kind) -> None:
        self._connection = connection
        self._store = store
        self._kind = kind
        self._revision = ""
        self._task: asyncio.Task[None] | None = None

    def list(self) -> None:
        """Store what is there.

        Raises:
            StatusError: the server refused.
        """
        answer = self._connection.request("GET", collection_path(self._kind))
        self._store.replace(
            self._kind.bucket, [self._complete(obj) for obj in answer.get("items") or ()]
        )
        self._revision = answer["metadata"]["resourceVersion"]

    def start(self) -> None:
        """Follow the changes after the list, in a task of the running event loop.

        Without a list it begins with one.
        """
        name = f"watch of {self._kind.qualified}"
        self._task = asyncio.get_running_loop().create_task(self._run(), name=name)

    def stop(self) -> None:
        """Stop; the objects stay in the store."""
        if self._task is not None:
            self._task.cancel()

    def _complete(self, obj: Obj) -> Obj:
        """Return an object of a list with what only the list has said."""
        return {"apiVersion": self._kind.api_version, "kind": self._kind.kind, **obj}

    async def _run(self) -> None:
        backoff = _MIN_BACKOFF
        while True:
            try:
                if not self._revision:
                    self.list()
                await self._watch()
                backoff = _MIN_BACKOFF
            except _TooOldError:
                self._revision = ""
            except (StatusError, OSError, aiohttp.ClientError, TimeoutError) as error:
                if isinstance(error, StatusError) and error.code == 410:
                    self._revision = ""
                _log.debug("%s: %s", self._kind.qualified, error)
                await async_sleep(backoff)
                backoff = min(backoff * 2, _MAX_BACKOFF)

    async def _watch(self) -> None:
        seconds = random.uniform(_WATCH_SECONDS, 2 * _WATCH_SECONDS)  # noqa: S311 - spreads load
        query = {
            "resourceVersion": self._revision,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(int(seconds)),
        }
        async for event in self._connection.watch(collection_path(self._kind), query):
            self._handle(event["type"], event["object"])

    def _handle(self, change: str, obj: Obj) -> None:
        if change == "ERROR":
            if obj.get("code") == 410:
                raise _TooOldError
            raise StatusError(obj.get("code") or 500, obj.get("reason", ""), obj.get("message", ""))
        self._revision = obj["metadata"]["resourceVersion"]
        if change == "DELETED":
            self._store.discard_watched(self._kind.bucket, obj)
        elif change != "BOOKMARK":
            self._store.set(self._kind.bucket, obj)
