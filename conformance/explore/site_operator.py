"""An operator of Sites over the official client, and twelve races that can be planted in it.

A Site has a page, which it owns, a port, which no other Site of its namespace has, and a record,
which outlives it unless the operator removes it. All three are kept in config maps. The operator
reports Ready, and a prober, with a watch of its own, Reachable. Several operators elect a leader.
"""

from __future__ import annotations

import copy
import json
import logging
import threading
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any

import kubernetes
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from conformance.explore.workloads import connect
from pytest_kwait.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GROUP, VERSION, PLURAL = "explore.example.com", "v1", "sites"
FINALIZER = f"{GROUP}/record"
SITE_LABEL = f"{GROUP}/site"
PORTS = "ports"
LEASE = "site-operator"
FIRST_PORT = 8000

RETRY = 0.05
"""Seconds before what failed is tried again."""

LEASE_DURATION = 0.8
RENEW_DEADLINE = 0.5
RENEW_PERIOD = 0.1
"""Seconds. A leader that could not renew for the deadline stops before its lease can be taken."""

_ERRORS = (ApiException, HTTPError, OSError)
_ANY = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_log = logging.getLogger(__name__)

DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"{PLURAL}.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": PLURAL, "singular": "site", "kind": "Site"},
        "versions": [
            {
                "name": VERSION,
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": _ANY, "status": _ANY},
                    }
                },
            }
        ],
    },
}
"""The definition of Sites."""


class Race(Enum):
    """A race that can be planted in the operator; the value is the mistake."""

    LOST_UPDATE = "a conflict is ignored, as the other change causes an event of its own"
    CACHE_READ_AFTER_WRITE = "a free port is looked up in the cache, which may lack the last one"
    MISSED_DELETE = "the record is removed on the event of the deletion, not by a finalizer"
    DOUBLE_CREATE = "pages have generated names, and the cache is asked whether there is one"
    READY_BEFORE_SYNCED = "orphaned pages are removed a moment after the first Site is known"
    FINALIZER_RACE = "the finalizer is set after the record is made, not before"
    STALE_OWNER = "a page of the right name is used, whichever UID its owner has"
    STATUS_OVERWRITE = "all conditions are written from the cache, without a resource version"
    LEASE_RACE = "the lease is read, then taken by a patch without a resource version"
    WATCH_WITHOUT_RESYNC = "after the end of a watch, the next begins at the present version"
    REFUSED_REQUEST = "a request that a busy server refuses, with 429 or 503, is not tried again"
    EVENT_ORDER = "the config map with the text of a Site is taken to be in the cache before it"


def site(name: str, text: str = "Welcome", text_from: str = "") -> dict[str, Any]:
    """Return a Site.

    Args:
        text_from: the config map that has its text instead.
    """
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "Site",
        "metadata": {"name": name},
        "spec": {"textFrom": text_from} if text_from else {"text": text},
    }


class _TryLater(Exception):
    """A state of the cluster that passes by itself."""


class _Informer(threading.Thread):
    """The objects of one kind in a namespace, by a list and a watch.

    Args:
        list_objects: a list method of the official client, with its place given.
        on_change: called with the last state of an object that has changed or is gone.
        race: the planted race, if any.
    """

    def __init__(
        self,
        list_objects: Callable[..., Any],
        on_change: Callable[[dict[str, Any]], None],
        race: Race | None,
    ) -> None:
        super().__init__(daemon=True)
        self.synced = threading.Event()
        self._list_objects = list_objects
        self._on_change = on_change
        self._race = race
        self._objects: dict[str, dict[str, Any]] = {}
        self._version = ""
        self._stopped = threading.Event()
        self._watch: Any = None

    def get(self, name: str) -> dict[str, Any] | None:
        """Return a copy of an object; None if there is none."""
        return copy.deepcopy(self._objects.get(name))

    def list(self) -> list[dict[str, Any]]:
        """Return copies of all objects."""
        return copy.deepcopy(list(self._objects.values()))

    def stop(self) -> None:
        """End the watch and the thread."""
        self._stopped.set()
        if self._watch is not None:
            self._watch.stop()

    def run(self) -> None:
        """List, and watch from there; list again once the watch cannot continue."""
        while not self._stopped.is_set():
            try:
                if not self._version and self._race is not Race.READY_BEFORE_SYNCED:
                    self._relist()
                self._follow()
            except ApiException as error:
                if error.status == 410:
                    self._version = ""
                self._stopped.wait(RETRY)
            except _ERRORS:
                self._stopped.wait(RETRY)
            if self._race is Race.WATCH_WITHOUT_RESYNC:
                self._version = ""

    def _relist(self) -> None:
        found = json.loads(self._list_objects(_preload_content=False).data)
        listed = {obj["metadata"]["name"]: obj for obj in found["items"]}
        if self._race is not Race.WATCH_WITHOUT_RESYNC or not self.synced.is_set():
            gone = [obj for name, obj in self._objects.items() if name not in listed]
            self._objects = listed
            self.synced.set()
            for obj in (*([] if self._race is Race.MISSED_DELETE else gone), *listed.values()):
                self._on_change(obj)
        self._version = found["metadata"]["resourceVersion"]

    def _follow(self) -> None:
        """Return once the server has ended the watch."""
        self._watch = kubernetes.watch.Watch("object")  # type: ignore[no-untyped-call]
        # Without a version, a watch begins with an event for each object that exists.
        for event in self._watch.stream(
            self._list_objects, resource_version=self._version, timeout_seconds=300
        ):
            obj = event["object"]
            self._version = obj["metadata"]["resourceVersion"]
            if event["type"] == "DELETED":
                self._objects.pop(obj["metadata"]["name"], None)
            elif event["type"] != "BOOKMARK":
                self._objects[obj["metadata"]["name"]] = obj
            if event["type"] != "BOOKMARK":
                self._on_change(obj)


class _Worker(threading.Thread):
    """A thread that reconciles one name after the other, and those that failed again.

    Args:
        reconcile: called with a name; a passing error brings the name again.
    """

    def __init__(self, reconcile: Callable[[str], None]) -> None:
        super().__init__(daemon=True)
        self._reconcile = reconcile
        self._due: dict[str, float] = {}
        self._changed = threading.Condition()
        self._stopped = False

    def add(self, name: str, after: float = 0.0) -> None:
        """Reconcile a name in so many seconds; the earlier time counts."""
        due = SYSTEM_CLOCK.monotonic() + after
        with self._changed:
            self._due[name] = min(due, self._due.get(name, due))
            self._changed.notify()

    def stop(self) -> None:
        """End once the present name is done."""
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def run(self) -> None:
        """Reconcile names until stopped."""
        while (name := self._next()) is not None:
            try:
                self._reconcile(name)
            except (_TryLater, *_ERRORS) as error:
                _log.info("%s: %s", name, error)
                self.add(name, RETRY)

    def _next(self) -> str | None:
        with self._changed:
            while not self._stopped:
                now = SYSTEM_CLOCK.monotonic()
                name = min(self._due, key=self._due.__getitem__, default=None)
                if name is not None and self._due[name] <= now:
                    del self._due[name]
                    return name
                self._changed.wait(None if name is None else self._due[name] - now)
        return None


class _SiteClient:
    """Lists and changes the Sites of a namespace, as one program.

    Args:
        race: the planted race, if any.
    """

    def __init__(self, client: Any, namespace: str, race: Race | None) -> None:
        self._custom = kubernetes.client.CustomObjectsApi(client)
        self._place = (GROUP, VERSION, namespace, PLURAL)
        self._race = race

    def list(self, **options: Any) -> Any:
        """List or watch Sites."""
        return self._custom.list_namespaced_custom_object(*self._place, **options)

    def patch(
        self, found: dict[str, Any], change: dict[str, Any], part: str = ""
    ) -> dict[str, Any]:
        """Change a Site or its status; a conflict if it has changed since it was read."""
        if self._race is not Race.STATUS_OVERWRITE or part != "status":
            version = {"resourceVersion": found["metadata"]["resourceVersion"]}
            change = {**change, "metadata": {**change.get("metadata", {}), **version}}
        method = getattr(self._custom, f"patch_namespaced_custom_object{part and '_' + part}")
        place = (*self._place, found["metadata"]["name"])
        changed: dict[str, Any] = method(
            *place, change, _content_type="application/merge-patch+json"
        )
        return changed

    def set_condition(self, found: dict[str, Any], kind: str, **status: Any) -> None:
        """Set a condition of a Site to True, and other fields of its status."""
        metadata = found["metadata"]
        others = [
            each for each in found.get("status", {}).get("conditions", []) if each["type"] != kind
        ]
        condition = {
            "type": kind,
            "status": "True",
            "observedGeneration": metadata["generation"],
        }
        self.patch(found, {"status": {**status, "conditions": [*others, condition]}}, "status")


class SiteOperator:
    """The operator of the Sites of one namespace.

    Args:
        kubeconfig: the cluster and the user.
        namespace: the namespace.
        race: the planted race; None for an operator without races.
    """

    def __init__(self, kubeconfig: Path, namespace: str, race: Race | None = None) -> None:
        client = connect(kubeconfig, "site-operator/1")
        self.race = race
        self.namespace = namespace
        self.client = _SiteClient(client, namespace, race)
        self.core: Any = kubernetes.client.CoreV1Api(client)
        self.prober = _Prober(kubeconfig, namespace, race)
        self._client = client
        self._seen: dict[str, tuple[Any, ...]] = {}
        self._worker = _Worker(self._reconcile)
        self._sites = _Informer(self.client.list, self._enqueue, race)
        self._maps = _Informer(
            partial(self.core.list_namespaced_config_map, namespace), lambda _: None, None
        )
        self._stopped = threading.Event()

    def start(self) -> None:
        """Start to work; return once the operator is ready."""
        self._sites.start()
        self._maps.start()
        self.prober.start()
        self._maps.synced.wait()
        if self.race is Race.READY_BEFORE_SYNCED:
            while not self._sites.list():
                self._stopped.wait(RETRY)
            self._stopped.wait(RETRY)
        else:
            self._sites.synced.wait()
        self._remove_orphans()
        self._worker.start()

    def stop(self) -> None:
        """End all threads and connections."""
        self._stopped.set()
        self.prober.stop()
        for part in (self._worker, self._sites, self._maps):
            part.stop()
        for part in (self._worker, self._sites, self._maps):
            part.join(10)
        self._client.close()

    def _enqueue(self, obj: dict[str, Any]) -> None:
        """Reconcile a Site unless only labels, annotations or conditions have changed."""
        metadata = obj["metadata"]
        recorded = obj.get("status", {}).get("recorded")
        state = (
            metadata["uid"],
            metadata["generation"],
            metadata.get("deletionTimestamp"),
            recorded,
        )
        gone = self._sites.get(metadata["name"]) is None
        if gone or self._seen.get(metadata["name"]) != state:
            self._seen[metadata["name"]] = state
            self._worker.add(metadata["name"])

    def _reconcile(self, name: str) -> None:
        try:
            self._sync(name, self._sites.get(name))
        except ApiException as error:
            ignored = {Race.LOST_UPDATE: (409,), Race.REFUSED_REQUEST: (429, 503)}
            if self.race is None or error.status not in ignored.get(self.race, ()):
                raise

    def _sync(self, name: str, found: dict[str, Any] | None) -> None:
        if found is None:
            if self.race is Race.MISSED_DELETE:
                self._delete_map(f"{name}-record")
            return
        metadata, status = found["metadata"], found.get("status", {})
        if "deletionTimestamp" in metadata:
            self._finalize(found)
            return
        if status.get("observedGeneration") == metadata["generation"]:
            return
        if self.race is Race.FINALIZER_RACE and not status.get("recorded"):
            self._write_map(f"{name}-record", {"host": f"{name}.example.com"})
            self.client.patch(found, {"status": {"recorded": True}}, "status")
            return
        if self.race is not Race.MISSED_DELETE:
            found = self._set_finalizer(found)
        self._write_map(f"{name}-record", {"host": f"{name}.example.com"})
        cached = self.race is Race.CACHE_READ_AFTER_WRITE
        port = self._cached_port(name) if cached else self._port(name)
        self._write_page(found)
        self.client.set_condition(
            found, "Ready", port=port, observedGeneration=metadata["generation"], recorded=True
        )

    # The record

    def _set_finalizer(self, found: dict[str, Any]) -> dict[str, Any]:
        finalizers = found["metadata"].get("finalizers", [])
        if FINALIZER in finalizers:
            return found
        return self.client.patch(found, {"metadata": {"finalizers": [*finalizers, FINALIZER]}})

    def _finalize(self, found: dict[str, Any]) -> None:
        finalizers = found["metadata"].get("finalizers", [])
        if FINALIZER in finalizers:
            self._delete_map(f"{found['metadata']['name']}-record")
            others = [each for each in finalizers if each != FINALIZER]
            self.client.patch(found, {"metadata": {"finalizers": others}})

    # The port

    def _port(self, name: str) -> int:
        """Return the port of a Site, from the server."""
        ports = self._read_map(PORTS) or self._write_map(PORTS, {})
        taken = ports.data or {}
        if name not in taken:
            ports.data = {**taken, name: _free_port(taken)}
            self.core.replace_namespaced_config_map(PORTS, self.namespace, ports)
        return int((ports.data or {})[name])

    def _cached_port(self, name: str) -> int:
        taken = (self._maps.get(PORTS) or {}).get("data", {})
        port = taken.get(name, _free_port(taken))
        self._write_map(PORTS, {name: port})
        return int(port)

    # The page

    def _write_page(self, found: dict[str, Any]) -> None:
        name, uid = found["metadata"]["name"], found["metadata"]["uid"]
        owner = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "Site", "name": name, "uid": uid}
        metadata: dict[str, Any] = {
            "name": f"{name}-page",
            "labels": {SITE_LABEL: name},
            "ownerReferences": [{**owner, "controller": True}],
        }
        data = {"index.html": f"<h1>{self._text(found['spec'])}</h1>\n"}
        if self.race is Race.DOUBLE_CREATE:
            del metadata["name"]
            metadata["generateName"] = f"{name}-page-"
            pages = [
                each["metadata"]["name"]
                for each in self._maps.list()
                if each["metadata"].get("labels", {}).get(SITE_LABEL) == name
            ]
            if pages:
                metadata = {"name": pages[0]}
        elif self.race is not Race.STALE_OWNER:
            page = self._read_map(metadata["name"])
            if page is not None and [ref.uid for ref in page.metadata.owner_references] != [uid]:
                raise _TryLater(f"the page of another Site {name} is not gone")
        self._write_map(metadata.get("name", ""), data, metadata)

    def _text(self, spec: dict[str, Any]) -> str:
        """Return the text of a Site, from the server if a config map has it."""
        source = spec.get("textFrom")
        if source is None:
            return str(spec["text"])
        if self.race is Race.EVENT_ORDER:
            return str((self._maps.get(source) or {}).get("data", {}).get("text", ""))
        texts = self._read_map(source)
        if texts is None:
            raise _TryLater(f"config map {source} is not there yet")
        return str(texts.data["text"])

    def _remove_orphans(self) -> None:
        """Remove the pages whose Sites are gone."""
        for page in self._maps.list():
            name = page["metadata"].get("labels", {}).get(SITE_LABEL)
            if name is not None and self._sites.get(name) is None:
                self._delete_map(page["metadata"]["name"])

    # Config maps

    def _read_map(self, name: str) -> Any:
        try:
            return self.core.read_namespaced_config_map(name, self.namespace)
        except ApiException as error:
            if error.status != 404:
                raise
            return None

    def _write_map(
        self, name: str, data: dict[str, str], metadata: dict[str, Any] | None = None
    ) -> Any:
        """Create a config map, or write into the one that exists."""
        body = {"metadata": metadata or {"name": name}, "data": data}
        try:
            return self.core.create_namespaced_config_map(self.namespace, body)
        except ApiException as error:
            if error.status != 409:
                raise
        return self.core.patch_namespaced_config_map(name, self.namespace, {"data": data})

    def _delete_map(self, name: str) -> None:
        try:
            self.core.delete_namespaced_config_map(name, self.namespace)
        except ApiException as error:
            if error.status != 404:
                raise


def _free_port(taken: dict[str, str]) -> str:
    used = {int(port) for port in taken.values()}
    return str(next(port for port in range(FIRST_PORT, 65536) if port not in used))


class _Prober:
    """Reports Sites as reachable once they are ready, with a watch of its own."""

    def __init__(self, kubeconfig: Path, namespace: str, race: Race | None) -> None:
        self._connection = connect(kubeconfig, "site-prober/1")
        self._client = _SiteClient(self._connection, namespace, race)
        self._worker = _Worker(self._probe)
        self._sites = _Informer(
            self._client.list, lambda obj: self._worker.add(obj["metadata"]["name"]), None
        )

    def start(self) -> None:
        """Start to probe."""
        self._sites.start()
        self._worker.start()

    def stop(self) -> None:
        """End all threads."""
        for part in (self._worker, self._sites):
            part.stop()
        for part in (self._worker, self._sites):
            part.join(10)
        self._connection.close()

    def _probe(self, name: str) -> None:
        found = self._sites.get(name)
        conditions = (found or {}).get("status", {}).get("conditions", [])
        kinds = {each["type"] for each in conditions}
        if found is not None and "Ready" in kinds and "Reachable" not in kinds:
            self._client.set_condition(found, "Reachable")


class Candidate(threading.Thread):
    """One of several operators that elect a leader by a Lease.

    Args:
        kubeconfig: the cluster and the user.
        namespace: of the Lease.
        identity: the name of the candidate.
        race: the planted race; None for an election without races.
    """

    def __init__(
        self, kubeconfig: Path, namespace: str, identity: str, race: Race | None = None
    ) -> None:
        super().__init__(daemon=True)
        self.terms: list[tuple[float, float]] = []
        """From when to when it led, in seconds of the monotonic clock."""
        self.led = threading.Event()
        client = connect(kubeconfig, f"candidate-{identity}/1")
        self._leases: Any = kubernetes.client.CoordinationV1Api(client)
        self._client = client
        self._namespace = namespace
        self._identity = identity
        self._race = race
        self._stopped = threading.Event()
        self._observed: tuple[Any, float] = (None, 0.0)

    def stop(self) -> None:
        """Stop to lead."""
        self._stopped.set()
        self.join(10)
        self._client.close()

    def run(self) -> None:
        """Take the lease when it is free, and renew it."""
        while not self._stopped.is_set():
            began = SYSTEM_CLOCK.monotonic()
            try:
                if self._take():
                    self.terms.append((SYSTEM_CLOCK.monotonic(), began + RENEW_DEADLINE))
                    self.led.set()
            except _ERRORS as error:
                _log.info("%s: %s", self._identity, error)
            self._stopped.wait(RENEW_PERIOD)

    def _take(self) -> bool:
        """Return whether the lease is taken or renewed; an error if another was quicker."""
        lease = self._leases.read_namespaced_lease(LEASE, self._namespace)
        now = SYSTEM_CLOCK.monotonic()
        state = (lease.spec.holder_identity, lease.spec.lease_transitions)
        if state != self._observed[0]:
            self._observed = (state, now)
        others = lease.spec.holder_identity not in (None, "", self._identity)
        if others and now < self._observed[1] + LEASE_DURATION:
            return False
        spec = {
            "holderIdentity": self._identity,
            "leaseTransitions": (lease.spec.lease_transitions or 0) + 1,
        }
        body: dict[str, Any] = {"spec": spec}
        if self._race is not Race.LEASE_RACE:
            body["metadata"] = {"resourceVersion": lease.metadata.resource_version}
        self._patch(body)
        return True

    def _patch(self, body: dict[str, Any]) -> None:
        """Patch the lease, once more after the time for which a busy server asks."""
        try:
            self._leases.patch_namespaced_lease(LEASE, self._namespace, body)
        except ApiException as error:
            pause = (error.headers or {}).get("Retry-After")
            if pause is None:
                raise
            self._stopped.wait(float(pause))
            self._leases.patch_namespaced_lease(LEASE, self._namespace, body)
