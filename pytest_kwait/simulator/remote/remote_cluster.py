"""A real API server as the cluster of our controllers, scheduler and kubelets.

Reads are those of the mirror; each write is a request, whose answer is in the mirror when the call
returns. So a component sees its own writes at once, as in the embedded cluster.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.conditions import is_condition_true
from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.apiextensions.controller import kinds_of_definition
from pytest_kwait.simulator.authentication.service_accounts import (
    ServiceAccountTokens,
    make_legacy_claims,
)
from pytest_kwait.simulator.clock import REAL, SimClock
from pytest_kwait.simulator.cluster import SimulatedCluster
from pytest_kwait.simulator.objects import clone, name_of, namespace_of, uid_of
from pytest_kwait.simulator.registry.generic_store import ObjectModified, is_deletion_complete
from pytest_kwait.simulator.registry.subresources import SCALE_KIND
from pytest_kwait.simulator.remote.mirror import MirrorReflector, MirrorStore, collection_path
from pytest_kwait.simulator.suspendable import SuspendableTasks

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.remote.connection import Connection
    from pytest_kwait.simulator.request_info import Caller
    from pytest_kwait.simulator.scheme import Kind

_log = logging.getLogger(__name__)

_DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
_LEASES = "leases.coordination.k8s.io"
_MAX_TRIES = 5
"""Writes of one change while others write the object. Source: client-go util/retry/util.go."""


class RemoteCluster(SimulatedCluster):
    """The cluster of one API server.

    Custom kinds follow the server's definitions. Kinds that it does not serve are empty.

    Args:
        connection: the server.
        signing_key: the private key of service account tokens as PEM, for those of Secrets.
        clock: the cluster's time.
    """

    def __init__(
        self, connection: Connection, signing_key: bytes, clock: SimClock | None = None
    ) -> None:
        self._mirror = MirrorStore()
        super().__init__(clock or SimClock(REAL), self._mirror)
        self.has_controllers = True
        self.time_scale = 1.0
        self.accounts = RemoteTokens(self, connection, signing_key)
        self._connection = connection
        self._reflectors: list[MirrorReflector] = []
        self._custom: dict[str, tuple[Obj, MirrorReflector]] = {}
        """The served definitions of custom kinds, with what follows their objects."""

    def list_all(self) -> None:
        """List everything that the server has.

        Raises:
            StatusError: the server refused.
        """
        self.kinds.version = self._connection.request("GET", "/version")
        served = self._list_served()
        for kind in self.kinds.stored():
            if (kind.api_version, kind.plural) in served and "watch" in kind.verbs:
                self._reflectors.append(MirrorReflector(self._connection, self._mirror, kind))
        for reflector in self._reflectors:
            reflector.list()

    def follow(self) -> None:
        """Follow the changes after the lists, in tasks of the running event loop."""
        self.use_tasks(SuspendableTasks(lambda: False))
        for reflector in self._reflectors:
            reflector.start()
        self.subscribe(_DEFINITIONS, self._follow_definition)

    async def close(self) -> None:
        """End what `follow` has begun, and the connections."""
        for reflector in (
            *self._reflectors,
            *(reflector for _, reflector in self._custom.values()),
        ):
            reflector.stop()
        await self._connection.close()

    def _list_served(self) -> set[tuple[str, str]]:
        """Return the group version and plural of what the server serves, of what we know."""
        served = set()
        for version in {kind.api_version for kind in self.kinds.stored()}:
            path = f"/apis/{version}" if "/" in version else f"/api/{version}"
            try:
                resource_list = self._connection.request("GET", path)
            except StatusError as error:
                if error.code != 404:
                    raise
                continue
            served |= {(version, resource["name"]) for resource in resource_list["resources"]}
        return served

    def _follow_definition(self, change: str, new: Obj, _: Obj | None) -> None:
        """Watch the objects of a custom kind while it is served."""
        name = name_of(new)
        spec: Obj = {}
        if change != "DELETED" and is_condition_true(new, "Established"):
            spec = {**new["spec"], "names": new["status"]["acceptedNames"]}
        last, reflector = self._custom.get(name, ({}, None))
        if spec == last:
            return
        self.kinds.remove(name)
        if reflector is not None:
            reflector.stop()
        kinds = [kind for kind in kinds_of_definition(spec) if not kind.hidden] if spec else []
        if not kinds:
            self._custom.pop(name, None)
            self._mirror.replace(name, [])
            return
        if not any(kind.stored for kind in kinds):
            # Any served version shows the objects.
            kinds[0] = replace(kinds[0], converted=False)
        self.kinds.add(kinds)
        reflector = MirrorReflector(self._connection, self._mirror, self.kinds[name])
        self._custom[name] = (spec, reflector)
        reflector.start()

    # -- reading

    def find_live(self, resource: str, name: str, namespace: str = "") -> Obj | None:
        """As `find`, from the server: the mirror may not have the object yet."""
        kind = self.kind_of(resource)
        try:
            return self._read(kind, name, namespace)
        except StatusError as error:
            if error.code != 404:
                raise
            return None

    def _read(self, kind: Kind, name: str, namespace: str) -> Obj:
        """Read an object from the server into the mirror.

        Raises:
            StatusError: 404, it does not exist; then it has left the mirror, too.
        """
        try:
            answer = self._connection.request("GET", _object_path(kind, name, namespace))
        except StatusError as error:
            if error.code == 404:
                self._forget(kind, name, namespace)
            raise
        return self._mirror.set(kind.bucket, answer)

    def _forget(self, kind: Kind, name: str, namespace: str, uid: str | None = None) -> None:
        stored_object = self.find(kind.qualified, name, namespace)
        if stored_object is not None and uid in (None, uid_of(stored_object)):
            self._mirror.discard_deleted(kind.bucket, stored_object)

    def subscribe(
        self, resource: str, handler: Callable[[str, Obj, Obj | None], None]
    ) -> Callable[[], None]:
        """Call `handler(type, new, old)` for each present object, then for each change.

        Returns:
            A function that ends the subscription.
        """

        def handle(change: str, new: Obj, old: Obj | None) -> None:
            try:
                handler(change, new, old)
            except StatusError as error:
                # Refused by the server: the other subscribers must still see the change.
                _log.warning("%s %s: %s", resource, name_of(new), error.message)

        return super().subscribe(resource, handle)

    # -- writing

    def has_webhooks(self) -> bool:
        """Return False: the server calls them."""
        return False

    def decode(self, kind: Kind, obj: Obj, caller: Caller, *, keeps_nulls: bool = False) -> Obj:
        """Return a copy of `obj`: the server decodes."""
        decoded: Obj = clone(obj)
        return decoded

    def create(
        self,
        resource: str | Kind,
        obj: Obj,
        namespace: str = "",
        *,
        caller: Caller | None = None,
        record: Callable[[Obj], None] | None = None,
        decoded: bool = False,
    ) -> Obj:
        """Create an object and return it as stored.

        Raises:
            StatusError: the server refused.
        """
        kind = self.kind_of(resource) if isinstance(resource, str) else resource
        path = collection_path(kind, namespace or namespace_of(obj))
        return self._mirror.set(
            kind.bucket, self._connection.request("POST", path, _with_kind(kind, obj))
        )

    def update(
        self,
        resource: str | Kind,
        obj: Obj,
        *,
        subresource: str | None = None,
        caller: Caller | None = None,
    ) -> Obj:
        """Replace an object or one of its subresources and return it as stored.

        A status is written on top of later changes of the rest, and one without resourceVersion
        also on top of later changes of other parts of the status.

        Raises:
            StatusError: 404 not found, 409 conflict, or the server refused.
        """
        kind = self.kind_of(resource) if isinstance(resource, str) else resource
        base = self.entry(kind, name_of(obj), namespace_of(obj)).obj
        revision = obj["metadata"].get("resourceVersion")
        if revision and revision != base["metadata"]["resourceVersion"]:
            raise ObjectModified(kind, name_of(obj))
        if subresource != "status":
            return base if obj == base else self._put(kind, obj, subresource)
        status = obj.get("status") or {}
        if revision and obj["metadata"] != base["metadata"]:
            # With annotations, as the revision of a Deployment.
            return self._put(
                kind, {**base, "metadata": obj["metadata"], "status": status}, "status"
            )
        return self._update_status(kind, base, status, is_owner=not revision)

    def _update_status(self, kind: Kind, base: Obj, status: Obj, *, is_owner: bool) -> Obj:
        """Write a status that was made from `base`.

        Args:
            is_owner: whether parts that others have changed meanwhile are kept, instead of refused.
        """
        latest = base
        for remaining_tries in reversed(range(_MAX_TRIES)):
            if status == (latest.get("status") or {}):
                return latest
            try:
                return self._put(kind, {**latest, "status": status}, "status")
            except StatusError as error:
                if error.reason != "Conflict" or not remaining_tries:
                    raise
            current_object = self._read(kind, name_of(base), namespace_of(base))
            before, now = latest.get("status") or {}, current_object.get("status") or {}
            if uid_of(current_object) != uid_of(base) or (now != before and not is_owner):
                raise ObjectModified(kind, name_of(base))
            status = rebase_status(status, before, now)
            latest = current_object
        raise ObjectModified(kind, name_of(base))

    def modify(
        self,
        resource: str,
        name: str,
        namespace: str,
        change: Callable[[Obj], None],
        *,
        subresource: str | None = None,
        caller: Caller | None = None,
    ) -> Obj:
        """Let `change` edit a copy of the object, write it and return it as stored.

        Args:
            caller: ignored: the server sees the user of this process.

        Raises:
            StatusError: 404 not found, or the server refused.
        """
        kind = self.kind_of(resource)
        obj = self.entry(kind, name, namespace).obj
        for remaining_tries in reversed(range(_MAX_TRIES)):
            edited: Obj = clone(obj)
            change(edited)
            if edited == obj:
                return obj
            try:
                return self._put(kind, edited, subresource)
            except StatusError as error:
                if error.reason != "Conflict" or not remaining_tries:
                    raise
            obj = self._read(kind, name, namespace)
        raise ObjectModified(kind, name)

    def scale(self, kind: Kind, name: str, namespace: str, replicas: int) -> Obj:
        """Set an object's replicas by its Scale and return the object as stored.

        Raises:
            StatusError: 404 not found, or the server refused.
        """
        scale = {"metadata": {"name": name, "namespace": namespace}, "spec": {"replicas": replicas}}
        path = _object_path(kind, name, namespace, "scale")
        self._connection.request("PUT", path, _with_kind(SCALE_KIND, scale))
        return self._read(kind, name, namespace)

    def _put(self, kind: Kind, obj: Obj, subresource: str | None) -> Obj:
        name, namespace = name_of(obj), namespace_of(obj)
        path = _object_path(kind, name, namespace, subresource)
        try:
            answer = self._connection.request("PUT", path, _with_kind(kind, obj))
        except StatusError as error:
            if error.code == 404:
                self._forget(kind, name, namespace)
            raise
        if is_deletion_complete(kind, answer):
            self._mirror.discard_deleted(kind.bucket, answer)
            return answer
        return self._mirror.set(kind.bucket, answer)

    def delete(
        self,
        resource: str | Kind,
        name: str,
        namespace: str = "",
        *,
        uid: str | None = None,
        grace: int | None = None,
        propagation: str | None = None,
        options: Obj | None = None,
        caller: Caller | None = None,
        is_named: bool = True,
    ) -> Obj:
        """Delete an object or mark it for deletion; returns the object or a Status.

        Raises:
            StatusError: 404 not found, 409 a precondition fails.
        """
        kind = self.kind_of(resource) if isinstance(resource, str) else resource
        body: Obj = {"apiVersion": "v1", "kind": "DeleteOptions", **(options or {})}
        for field, value in (
            ("preconditions", None if uid is None else {"uid": uid}),
            ("gracePeriodSeconds", grace),
            ("propagationPolicy", propagation),
        ):
            if value is not None:
                body[field] = value
        try:
            answer = self._connection.request("DELETE", _object_path(kind, name, namespace), body)
        except StatusError as error:
            if error.code == 404:
                self._forget(kind, name, namespace)
            raise
        if answer.get("kind") == "Status":
            self._forget(kind, name, namespace, (answer.get("details") or {}).get("uid"))
        elif "deletionTimestamp" in answer["metadata"] and not is_deletion_complete(kind, answer):
            self._mirror.set(kind.bucket, answer)
        else:
            self._mirror.discard_deleted(kind.bucket, answer)
        return answer

    def bind(
        self,
        namespace: str,
        pod: str,
        node: str,
        *,
        binding: Obj | None = None,
        dry_run: bool = False,
    ) -> None:
        """Assign a pod to a node.

        Raises:
            StatusError: 404 not found, 409 already assigned or being deleted.
        """
        kind = self.kinds["pods"]
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod, "namespace": namespace},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        self._connection.request("POST", _object_path(kind, pod, namespace, "binding"), body)
        # The scheduler counts it before it looks at the next pod.
        self._read(kind, pod, namespace)

    def renew(self, namespace: str, lease: str) -> bool:
        """Renew a lease; returns whether it exists."""

        def renew(changed: Obj) -> None:
            changed["spec"]["renewTime"] = self.clock.micro_stamp()

        try:
            self.modify(_LEASES, lease, namespace, renew)
        except StatusError as error:
            if error.code == 404:
                return False
            # The next one comes long before the lease ends.
            _log.warning("lease %s: %s", lease, error.message)
        return True


class RemoteTokens(ServiceAccountTokens):
    """Service account tokens that the server issues; those of Secrets are signed with its key.

    Args:
        signing_key: the key as PEM.
    """

    def __init__(
        self, cluster: SimulatedCluster, connection: Connection, signing_key: bytes
    ) -> None:
        super().__init__(cluster)
        self._connection = connection
        self._signing_key = signing_key

    @cached_property
    def _key(self) -> Any:
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        return load_pem_private_key(self._signing_key, password=None)

    def issue(self, account: Obj, request: Obj) -> Obj:
        """Request a token of an account.

        Raises:
            StatusError: the request is invalid.
        """
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", **request}
        path = (
            f"/api/v1/namespaces/{namespace_of(account)}/serviceaccounts/{name_of(account)}/token"
        )
        return self._connection.request("POST", path, body)

    def legacy(self, account: Obj, secret: Obj) -> str:
        """Return the token of a Secret, valid as long as the Secret exists."""
        import jwt

        # Without a key id: the server tries its keys.
        return jwt.encode(make_legacy_claims(account, secret), self._key, "ES256")


def rebase_status(local: Obj, base: Obj, remote: Obj) -> Obj:
    """Return `remote` with what `local` changes of `base`; conditions are merged by type."""
    merged = _rebase(local, base, remote)
    conditions = _rebase(*(_conditions_by_type(status) for status in (local, base, remote)))
    if conditions:
        merged["conditions"] = [*conditions.values()]
    else:
        merged.pop("conditions", None)
    return merged


def _rebase(local: Obj, base: Obj, remote: Obj) -> Obj:
    merged = dict(remote)
    for field in {**base, **local}:
        if field not in local:
            merged.pop(field, None)
        elif local[field] != base.get(field):
            merged[field] = local[field]
    return merged


def _conditions_by_type(status: Obj) -> Obj:
    return {condition["type"]: condition for condition in status.get("conditions") or ()}


def _object_path(kind: Kind, name: str, namespace: str, subresource: str | None = None) -> str:
    path = f"{collection_path(kind, namespace)}/{name}"
    return path if subresource is None else f"{path}/{subresource}"


def _with_kind(kind: Kind, obj: Obj) -> Obj:
    """Return an object with the type that its request needs."""
    return {**obj, "apiVersion": kind.api_version, "kind": kind.kind}
