"""A real API server as the cluster of our controllers, scheduler and kubelets.

Reads are those of the mirror; each write is a request, whose answer is in the mirror when the call
returns. So a component sees its own writes at once, as in the embedded cluster.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import pytest_kwait.simulator as simulator
from pytest_kwait.apimachinery.conditions import is_condition_true
from pytest_kwait.client.resource import SERVICE_ACCOUNTS
from pytest_kwait.client.write_options import APPLY_PATCH
from pytest_kwait.remote.mirror import Mirror
from pytest_kwait.remote.reflectors import LoopQueue, MirrorReflector, resource_of
from pytest_kwait.simulator.api_errors import StatusError, object_modified
from pytest_kwait.simulator.clock import REAL, SimClock
from pytest_kwait.simulator.cluster_protocol import Cluster
from pytest_kwait.simulator.objects import clone, name_of, namespace_of, uid_of
from pytest_kwait.simulator.protocol.addresses import KUBERNETES_ADDRESS, SERVICE_NETWORK
from pytest_kwait.simulator.request_info import AuthorizerDecision
from pytest_kwait.simulator.store import Store
from pytest_kwait.simulator.suspendable import SuspendableTasks

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.remote.rest_client import RESTClient
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import AuthorizationAttributes, Caller
    from pytest_kwait.simulator.scheme import Kind

_log = logging.getLogger(__name__)

_DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
_LEASES = "leases.coordination.k8s.io"
_MAX_TRIES = 5
"""Writes of one change while others write the object. Source: client-go util/retry/util.go."""
_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class _ServiceRange(NamedTuple):
    """The range that `clusters.binaries` gives to the API server, as the embedded cluster's."""

    cidrs: tuple[str, ...] = (SERVICE_NETWORK,)
    kubernetes_address: str = KUBERNETES_ADDRESS


class RemoteCluster(Cluster):
    """The cluster of one API server.

    Custom kinds follow the server's definitions. Kinds that it does not serve are empty.

    Args:
        client: the requests to the server.
        signing_key: the private key of service account tokens as PEM, for those of Secrets.
        clock: the cluster's time.
    """

    def __init__(
        self, client: RESTClient, signing_key: bytes, clock: SimClock | None = None
    ) -> None:
        super().__init__(clock or SimClock(REAL), Store())
        self.use_tasks(SuspendableTasks(lambda: False))
        self.addresses = _ServiceRange()
        self.rbac = AccessReviews(client)
        self.accounts = RemoteTokens(client, signing_key)
        self._client = client
        self._mirror = Mirror(self.store)
        self._queue: LoopQueue | None = None
        self._reflectors: list[MirrorReflector] = []
        """All that were started; those of custom kinds may have been stopped."""
        self._custom: dict[str, tuple[Obj, MirrorReflector]] = {}
        """The served definitions of custom kinds, with what follows their objects."""

    async def follow(self) -> None:
        """List everything that the server has, and follow it; returns after the lists.

        The mirror changes while the running event loop does.

        Raises:
            StatusError: the server refused.
        """
        self.kinds.version = self._client.request("GET", "/version")
        served = self._list_served()
        self._queue = LoopQueue()
        reflectors = [
            self._start_reflector(kind)
            for kind in self.kinds.stored()
            if (kind.api_version, kind.plural) in served and "watch" in kind.verbs
        ]
        await asyncio.gather(*(reflector.wait_listed() for reflector in reflectors))
        self.subscribe(_DEFINITIONS, self._follow_definition)

    async def close(self) -> None:
        """End what `follow` has begun, and the connections."""
        for reflector in self._reflectors:
            reflector.stop()
        if self._queue is not None:
            self._queue.close()
        for reflector in self._reflectors:
            reflector.join()
        self._client.close()

    def _start_reflector(self, kind: Kind) -> MirrorReflector:
        assert self._queue is not None, "started by follow"  # noqa: S101
        reflector = MirrorReflector(self._client.session, self._mirror, kind, self._queue)
        self._reflectors.append(reflector)
        reflector.start()
        return reflector

    def _list_served(self) -> set[tuple[str, str]]:
        """Return the group version and plural of what the server serves, of what we know."""
        served = set()
        for version in {kind.api_version for kind in self.kinds.stored()}:
            path = f"/apis/{version}" if "/" in version else f"/api/{version}"
            try:
                resource_list = self._client.request("GET", path)
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
        versions = simulator.kinds_of_definition(spec) if spec else []
        kinds = [kind for kind in versions if not kind.hidden]
        if not kinds:
            self._custom.pop(name, None)
            self._mirror.clear(name)
            return
        if not any(kind.stored for kind in kinds):
            # Any served version shows the objects.
            kinds[0] = replace(kinds[0], converted=False)
        self.kinds.add(kinds)
        self._custom[name] = (spec, self._start_reflector(self.kinds[name]))

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
            answer = self._client.request("GET", _object_path(kind, name, namespace))
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

    def decode(self, kind: Kind, obj: Obj, caller: Caller) -> Obj:
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
        decoded: bool = False,
    ) -> Obj:
        """Create an object and return it as stored.

        Raises:
            StatusError: the server refused.
        """
        kind = self.kind_of(resource) if isinstance(resource, str) else resource
        path = resource_of(kind).path(namespace or namespace_of(obj) or None)
        return self._mirror.set(
            kind.bucket, self._client.request("POST", path, _with_kind(kind, obj))
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
            raise _modified(kind, name_of(obj))
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
                raise _modified(kind, name_of(base))
            status = rebase_status(status, before, now)
            latest = current_object
        raise _modified(kind, name_of(base))

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
        raise _modified(kind, name)

    def apply(self, resource: str, configuration: Obj, *, manager: str) -> Obj:
        """Apply a configuration, even against other field managers; return the object as stored.

        Raises:
            StatusError: the server refused.
        """
        kind = self.kind_of(resource)
        path = _object_path(kind, name_of(configuration), namespace_of(configuration))
        query = {"fieldManager": manager, "force": "true"}
        answer = self._client.request(
            "PATCH", path, configuration, query=query, content_type=APPLY_PATCH
        )
        return self._mirror.set(kind.bucket, answer)

    def scale(self, kind: Kind, name: str, namespace: str, replicas: int) -> Obj:
        """Set an object's replicas by its Scale and return the object as stored.

        Raises:
            StatusError: 404 not found, or the server refused.
        """
        scale = {"metadata": {"name": name, "namespace": namespace}, "spec": {"replicas": replicas}}
        path = _object_path(kind, name, namespace, "scale")
        body = {"apiVersion": "autoscaling/v1", "kind": "Scale", **scale}
        self._client.request("PUT", path, body)
        return self._read(kind, name, namespace)

    def _put(self, kind: Kind, obj: Obj, subresource: str | None) -> Obj:
        name, namespace = name_of(obj), namespace_of(obj)
        path = _object_path(kind, name, namespace, subresource)
        try:
            answer = self._client.request("PUT", path, _with_kind(kind, obj))
        except StatusError as error:
            if error.code == 404:
                self._forget(kind, name, namespace)
            raise
        if simulator.is_deletion_complete(kind, answer):
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
        caller: Caller | None = None,
    ) -> Obj:
        """Delete an object or mark it for deletion; returns the object or a Status.

        Raises:
            StatusError: 404 not found, 409 a precondition fails.
        """
        kind = self.kind_of(resource) if isinstance(resource, str) else resource
        body: Obj = {"apiVersion": "v1", "kind": "DeleteOptions"}
        for field, value in (
            ("preconditions", None if uid is None else {"uid": uid}),
            ("gracePeriodSeconds", grace),
            ("propagationPolicy", propagation),
        ):
            if value is not None:
                body[field] = value
        try:
            answer = self._client.request("DELETE", _object_path(kind, name, namespace), body)
        except StatusError as error:
            if error.code == 404:
                self._forget(kind, name, namespace)
            raise
        if answer.get("kind") == "Status":
            self._forget(kind, name, namespace, (answer.get("details") or {}).get("uid"))
        elif "deletionTimestamp" not in answer["metadata"] or simulator.is_deletion_complete(
            kind, answer
        ):
            self._mirror.discard_deleted(kind.bucket, answer)
        else:
            self._mirror.set(kind.bucket, answer)
        return answer

    def bind(self, namespace: str, pod: str, node: str) -> None:
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
        self._client.request("POST", _object_path(kind, pod, namespace, "binding"), body)
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


class AccessReviews:
    """The decisions of the server's authorizers."""

    def __init__(self, client: RESTClient) -> None:
        self._client = client

    def decide(self, attributes: AuthorizationAttributes) -> AuthorizerDecision:
        """Return whether a request for a resource is allowed, by a SubjectAccessReview.

        Raises:
            StatusError: the server refused.
        """
        user = attributes.user
        resource = {
            "verb": attributes.verb,
            "group": attributes.group,
            "resource": attributes.resource,
            "subresource": attributes.subresource,
            "name": attributes.name,
            "namespace": attributes.namespace,
        }
        spec = {
            "user": user.name,
            "groups": [*user.groups],
            "uid": user.uid,
            "extra": {key: [*values] for key, values in user.extra.items()},
            "resourceAttributes": resource,
        }
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "metadata": {},
            "spec": spec,
        }
        status = self._client.request("POST", _REVIEWS, body)["status"]
        return AuthorizerDecision(status["allowed"], status.get("reason", ""))


class RemoteTokens:
    """Service account tokens that the server issues; those of Secrets are signed with its key.

    Args:
        signing_key: the key as PEM.
    """

    def __init__(self, client: RESTClient, signing_key: bytes) -> None:
        self._client = client
        self._signing_key = signing_key

    def issue(self, account: Obj, request: Obj) -> Obj:
        """Request a token of an account.

        Raises:
            StatusError: the request is invalid.
        """
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", **request}
        path = SERVICE_ACCOUNTS.path(namespace_of(account), name_of(account), "token")
        return self._client.request("POST", path, body)

    def legacy(self, account: Obj, secret: Obj) -> str:
        """Return the token of a Secret, valid as long as the Secret exists."""
        return simulator.sign_legacy_token(account, secret, self._signing_key)


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


def _modified(kind: Kind, name: str) -> StatusError:
    return object_modified(kind.group, kind.plural, name)


def _object_path(kind: Kind, name: str, namespace: str, subresource: str | None = None) -> str:
    return resource_of(kind).path(namespace or None, name, subresource)


def _with_kind(kind: Kind, obj: Obj) -> Obj:
    """Return an object with the type that its request needs."""
    return {**obj, "apiVersion": kind.api_version, "kind": kind.kind}
