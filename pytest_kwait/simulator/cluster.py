"""The embedded cluster's objects: read, subscribe, create, update, delete.

This is what HTTP requests, controllers and kubelets call. All calls are synchronous and made from
one thread. Returned objects must not be changed; passed objects are taken over.
Renewing a lease is a path of its own, because every node does it all the time. The controller of
CustomResourceDefinitions is imported with the first definition: most clusters have none.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from pytest_kwait.simulator.admission.chain import AdmissionChain
from pytest_kwait.simulator.admission.priority import system_priority_classes
from pytest_kwait.simulator.authentication.pki import FrontProxy
from pytest_kwait.simulator.authentication.service_accounts import ServiceAccountTokens
from pytest_kwait.simulator.authorization.rbac import RBACAuthorizer, install_bootstrap_objects
from pytest_kwait.simulator.clock import FAST, SimClock
from pytest_kwait.simulator.cluster_protocol import ApiServerCluster
from pytest_kwait.simulator.conversion import to_storage_version, to_version
from pytest_kwait.simulator.managedfields.apply import apply_object
from pytest_kwait.simulator.objects import clone, name_of, namespace_of
from pytest_kwait.simulator.protocol.options import TIME_SCALES
from pytest_kwait.simulator.registry.core_services import ServiceAllocator
from pytest_kwait.simulator.registry.generic_store import GenericStore, retry_on_conflict
from pytest_kwait.simulator.registry.rest_storages import storage_class
from pytest_kwait.simulator.registry.strategy import Strategy, decode, decode_change, strategy_of
from pytest_kwait.simulator.registry.subresources import bind_pod, store_scale
from pytest_kwait.simulator.request_info import Caller, internal_caller, server_caller
from pytest_kwait.simulator.store import Entry, Store, key_of
from pytest_kwait.simulator.suspendable import beside_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from pytest_kwait.simulator.apiextensions.controller import DefinitionController
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.scheme import Kind

_LEASES = "leases.coordination.k8s.io"
_DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"

_WEBHOOK_CONFIGURATIONS = tuple(
    f"{kind}webhookconfigurations.admissionregistration.k8s.io"
    for kind in ("mutating", "validating")
)
_SYSTEM_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


class SimulatedCluster(ApiServerCluster):
    """The objects of one cluster and the rules for changing them.

    Args:
        clock: the cluster's time.
        store: where the objects are kept.
        disabled_plugins: names of admission plugins that are off, as `ServiceAccount`.
    """

    def __init__(
        self,
        clock: SimClock | None = None,
        store: Store | None = None,
        *,
        disabled_plugins: Collection[str] = (),
    ) -> None:
        super().__init__(clock or SimClock(), store or Store())
        self.time_scale = TIME_SCALES["fast" if self.clock.scale == FAST else "real"]
        self.admission = AdmissionChain(self, disabled_plugins)
        self.addresses = ServiceAllocator(self)
        self.rbac = RBACAuthorizer(self)
        self.accounts = ServiceAccountTokens(self)
        self._definitions: DefinitionController | None = None
        self._strategies: dict[tuple[str, str], Strategy] = {}
        self._storages: dict[tuple[str, str, str | None], GenericStore] = {}
        self._webhooks = tuple(map(self.store.present, _WEBHOOK_CONFIGURATIONS))
        self.before_write: list[Callable[[Kind, Obj, Obj | None], None]] = []

    @cached_property
    def front_proxy(self) -> FrontProxy:
        """The certificate of requests to aggregated servers."""
        return FrontProxy()

    def bootstrap(self, *, has_controllers: bool = True) -> None:
        """Create the objects that every cluster has; they are not part of the history.

        Args:
            has_controllers: whether there are others than those of kube-apiserver.
        """
        self.has_controllers = has_controllers
        self.subscribe(_DEFINITIONS, self._on_definition_change)
        for name in _SYSTEM_NAMESPACES:
            self.create("namespaces", {"metadata": {"name": name}}, caller=server_caller())
        for priority_class in system_priority_classes():
            self.create("priorityclasses.scheduling.k8s.io", priority_class, caller=server_caller())
        install_bootstrap_objects(self, aggregate_roles=has_controllers)
        self.store.forget_history()

    def _on_definition_change(self, event: str, new: Obj, old: Obj | None) -> None:
        if self._definitions is None:
            # Not at import: a cluster starts sooner without it, and most have no definitions.
            from pytest_kwait.simulator.apiextensions.controller import DefinitionController

            self._definitions = DefinitionController(self)
        if self.tasks.may_suspend():
            # Later changes are delivered only after the handlers of this one have returned.
            self.clock.call_soon(self._definitions.on_change, event, new, old)
        else:
            self._definitions.on_change(event, new, old)

    # -- decoding

    def strategy(self, kind: Kind) -> Strategy:
        """Return the strategy of `kind`."""
        key = (kind.api_version, kind.plural)
        strategy = self._strategies.get(key)
        if strategy is None or strategy.kind is not kind:
            strategy = self._strategies[key] = strategy_of(kind)
        return strategy

    def storage(self, kind: Kind, subresource: str | None = None) -> GenericStore:
        """Return the REST storage of `kind` or of its subresource."""
        key = (kind.api_version, kind.plural, subresource)
        storage = self._storages.get(key)
        if storage is None or storage.kind is not kind:
            rest = storage_class(kind, subresource or "")
            storage = self._storages[key] = rest(self, kind, subresource or "")
        return storage

    def decode(self, kind: Kind, obj: Obj, caller: Caller, *, keeps_nulls: bool = False) -> Obj:
        """Return `obj` in its storage version: typed, pruned, defaulted.

        Custom kinds stay in their version until they are written, and with `keeps_nulls` have the
        nulls that their schema does not allow.

        Raises:
            StatusError: 400 for a value of a wrong type, or for unknown fields if they are refused.
        """
        clean = decode(self.strategy(kind), obj, caller, keeps_nulls=keeps_nulls)
        if kind.stored or kind.custom:
            return clean
        storage = self.kinds[kind.bucket]
        return decode(self.strategy(storage), to_storage_version(kind, clean), internal_caller())

    # -- writing

    def has_webhooks(self) -> bool:
        """Return whether a write may have to wait for a webhook, of admission or of conversion."""
        return bool(self._webhooks[0] or self._webhooks[1] or self.kinds.webhook_converted)

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
        """Store a new object and return it as stored; `record` sets its field managers.

        Raises:
            StatusError: the request is invalid or denied.
        """
        asking = caller or internal_caller()
        kind = self.kind_of(resource) if isinstance(resource, str) else resource
        return self.storage(kind).create(obj, namespace, asking, record, decoded=decoded)

    def update(
        self,
        resource: str | Kind,
        obj: Obj,
        *,
        subresource: str | None = None,
        caller: Caller | None = None,
    ) -> Obj:
        """Replace an object or one of its subresources and return it as stored.

        Raises:
            StatusError: 404 not found, 409 conflict, or the request is invalid or denied.
        """
        kind = self.kind_of(resource) if isinstance(resource, str) else resource
        name, namespace = name_of(obj), namespace_of(obj)
        if caller is None or caller.internal:
            return self._write_own(kind, name, namespace, lambda _: obj, subresource, caller)
        entry = self.entry(kind, name, namespace)
        return self.replace(kind, entry, obj, subresource, caller)

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

        Raises:
            StatusError: 404 not found, or the request is invalid or denied.
        """

        def changed(obj: Obj) -> Obj:
            edited: Obj = clone(obj)
            change(edited)
            return edited

        kind = self.kind_of(resource)
        return self._write_own(kind, name, namespace, changed, subresource, caller)

    def apply(self, resource: str, configuration: Obj, *, manager: str) -> Obj:
        """Apply a configuration, even against other field managers; return the object as stored.

        Raises:
            StatusError: the request is invalid or denied.
        """
        kind = self.kind_of(resource)
        caller = Caller(manager=manager)
        return apply_object(self, kind, configuration, None, caller, force=True)[0]

    def scale(self, kind: Kind, name: str, namespace: str, replicas: int) -> Obj:
        """Set an object's replicas by its Scale and return the object as stored.

        Raises:
            StatusError: 404 not found, or the request is invalid or denied.
        """

        def write() -> Obj:
            entry = self.entry(kind, name, namespace)
            if kind.custom:
                entry = Entry(entry.key, to_version(kind, entry.obj), entry.revision)
            return store_scale(
                self,
                kind,
                entry,
                lambda scale: {**scale, "spec": {"replicas": replicas}},
                internal_caller(),
            )

        return retry_on_conflict(write)

    def _write_own(
        self,
        kind: Kind,
        name: str,
        namespace: str,
        make: Callable[[Obj], Obj],
        subresource: str | None,
        writer: Caller | None = None,
    ) -> Obj:
        """Write the cluster's own change of an object; only the difference is decoded."""
        caller = writer or internal_caller()

        def write() -> Obj:
            entry = self.entry(kind, name, namespace)
            with beside_loop():
                obj = make(entry.obj)
                if self.has_webhooks():
                    obj = clone(obj)  # a write takes over its object, and may be tried again
            if kind.custom:
                return self.replace(kind, entry, obj, subresource, caller)
            with beside_loop():
                new: Obj = decode_change(self.strategy(kind), obj, entry.obj, subresource)
            return self.storage(kind, subresource).update(entry, new, caller, decoded=True)

        return retry_on_conflict(write)

    def replace(
        self, kind: Kind, entry: Entry, obj: Obj, subresource: str | None, caller: Caller
    ) -> Obj:
        """Replace `entry` by `obj`; nothing is written if nothing changes.

        Raises:
            StatusError: the request is invalid or denied.
        """
        return self.storage(kind, subresource).update(entry, obj, caller)

    def replace_decoded(
        self,
        kind: Kind,
        entry: Entry,
        new: Obj,
        subresource: str | None,
        caller: Caller,
        record: Callable[[Obj], None] | None = None,
    ) -> Obj:
        """As `replace` for a decoded object; `record` sets its field managers.

        Raises:
            StatusError: the request is invalid or denied.
        """
        return self.storage(kind, subresource).update(entry, new, caller, record, decoded=True)

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

        Args:
            is_named: False for one of a deleted collection: admission sees no name.

        Raises:
            StatusError: 404 not found, 409 a precondition fails.
        """
        asking = caller or internal_caller()
        kind = self.kind_of(resource) if isinstance(resource, str) else resource
        delete_options = dict(options or {})
        if uid is not None:
            delete_options["preconditions"] = {
                **(delete_options.get("preconditions") or {}),
                "uid": uid,
            }
        if grace is not None:
            delete_options["gracePeriodSeconds"] = grace
        if propagation is not None:
            delete_options["propagationPolicy"] = propagation
        return retry_on_conflict(
            lambda: self.storage(kind).delete(
                name, namespace, delete_options, asking, is_named=is_named
            )
        )

    def delete_admitted(
        self, resource: str, name: str, namespace: str, *, options: Obj, dry_run: bool
    ) -> None:
        """As `delete` for an eviction that is already admitted.

        Raises:
            StatusError: 404 not found, 409 a precondition fails.
        """
        caller = internal_caller()
        caller.dry_run = dry_run
        kind = self.kind_of(resource)
        retry_on_conflict(
            lambda: self.storage(kind).delete(name, namespace, options, caller, admitted=True)
        )

    def bind(
        self,
        namespace: str,
        pod: str,
        node: str,
        *,
        binding: Obj | None = None,
        dry_run: bool = False,
    ) -> None:
        """Assign a pod to a node and mark it as scheduled, in one write.

        Args:
            namespace: the pod's namespace.
            pod: its name.
            node: the node's name.
            binding: the Binding object of an API request.
            dry_run: whether nothing is stored.

        Raises:
            StatusError: 404 not found, 409 already assigned or being deleted.
        """
        kind = self.kinds["pods"]
        entry = self.entry(kind, pod, namespace)
        new = bind_pod(entry.obj, node, self.clock.stamp(), binding)
        if not dry_run:
            self.store.put(kind.bucket, entry.key, new)

    def renew(self, namespace: str, lease: str) -> bool:
        """Renew a lease; returns whether it exists."""
        entry = self.store.get(_LEASES, key_of(lease, namespace))
        if entry is None:
            return False
        renewed = {
            **entry.obj,
            "metadata": {**entry.obj["metadata"]},
            "spec": {**entry.obj["spec"], "renewTime": self.clock.micro_stamp()},
        }
        self.store.put(_LEASES, entry.key, renewed)
        return True
