"""The cluster as the embedded cluster's other modules see it.

`Cluster` is what components use: controllers, the scheduler, kubelets and the network of pods.
`ApiServerCluster` adds what the API server uses: handlers, the write path and admission plugins.
`SimulatedCluster` in `cluster` implements both. `pytest_kwait.remote` implements the first one, on
a real API server. What is the same in both, reading above all, is written here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pytest_kwait.simulator.api_errors import not_found, resource_not_found
from pytest_kwait.simulator.faults import ActiveFaults
from pytest_kwait.simulator.no_exploration import NoExploration
from pytest_kwait.simulator.protocol.container_scripts import ScriptRules
from pytest_kwait.simulator.protocol.egress import EgressTargets
from pytest_kwait.simulator.protocol.image_mapping import ImageMappings
from pytest_kwait.simulator.scheme import Scheme
from pytest_kwait.simulator.services import Services
from pytest_kwait.simulator.store import key_of
from pytest_kwait.simulator.suspendable import Tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_kwait.simulator.admission.attributes import Attributes
    from pytest_kwait.simulator.authentication.pki import FrontProxy
    from pytest_kwait.simulator.clock import SimClock
    from pytest_kwait.simulator.kubelet_api import KubeletApi
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.protocol.options import RequestedIsolation
    from pytest_kwait.simulator.registry.strategy import Strategy
    from pytest_kwait.simulator.request_info import (
        AuthorizationAttributes,
        Authorizer,
        AuthorizerDecision,
        Caller,
        User,
    )
    from pytest_kwait.simulator.scheme import Kind
    from pytest_kwait.simulator.store import Change, Entry, Store


class TokenIssuer(Protocol):
    """Issues the tokens of service accounts."""

    def issue(self, account: Obj, request: Obj) -> Obj:
        """Answer a decoded TokenRequest; StatusError if it is invalid."""

    def legacy(self, account: Obj, secret: Obj) -> str:
        """The token of a secret, valid as long as the secret exists."""


class TokenAuthority(TokenIssuer, Protocol):
    """Issues and checks the tokens of service accounts."""

    @property
    def key_set(self) -> Obj:
        """The public key as a JSON Web Key Set."""

    def discovery(self, keys: str) -> Obj:
        """The OpenID Connect discovery document; `keys` is the URL of the key set."""

    def user_of(self, token: str, audiences: Sequence[str] = ...) -> tuple[User, list[str]] | None:
        """The user and the matching audiences; None for a token of another issuer."""


class ServiceRange(Protocol):
    """The range of the cluster IPs of services."""

    @property
    def cidrs(self) -> tuple[str, ...]:
        """The ranges of cluster IPs."""

    @property
    def kubernetes_address(self) -> str:
        """The cluster IP of the service `default/kubernetes`."""


class ServiceAddresses(ServiceRange, Protocol):
    """Allocates the cluster IPs and node ports of services."""

    def begin_create(self, service: Obj, caller: Caller) -> Callable[[], None]:
        """Give a new service its addresses and ports; returns what ends the reservation."""

    def begin_update(self, service: Obj, old: Obj, caller: Caller) -> Callable[[], None]:
        """Give a changed service the addresses and ports that it lacks, as `begin_create`."""


class AccessReviewer(Protocol):
    """Decides whether requests of users are allowed."""

    def decide(self, attributes: AuthorizationAttributes) -> AuthorizerDecision:
        """Return whether it is allowed, with the reason."""


class Admission(Protocol):
    """The admission plugins of a cluster; most methods raise StatusError to refuse a request."""

    def has_policies(self) -> bool:
        """Return whether writes evaluate expressions of policies, which may take long."""

    def admit(self, attributes: Attributes) -> None:
        """Let the plugins change the object, which has not been validated yet."""

    def validate(self, attributes: Attributes) -> None:
        """Let the plugins refuse the object, which is valid."""

    def admit_subresource(self, attributes: Attributes) -> None:
        """Let the plugins change the content of a subresource."""

    def validate_subresource(self, attributes: Attributes) -> None:
        """Let the plugins refuse the content of a subresource."""


class Cluster(Protocol):
    """The objects of one cluster, and what its nodes share.

    All calls are synchronous and made from one thread. Returned objects must not be changed; passed
    objects are taken over.

    Args:
        clock: the cluster's time.
        store: where the objects are kept.
    """

    clock: SimClock
    """The cluster's time."""
    store: Store
    """The stored objects."""
    kinds: Scheme
    """The kinds that the cluster serves."""
    services: Services
    """What components share."""
    exploration: NoExploration
    """The hooks of the exploration that perturbs the cluster."""
    tasks: Tasks
    """The way in which the work of components is run."""
    kubelets: dict[str, KubeletApi]
    """The kubelets by node name."""
    scripts: ScriptRules
    """The scripts that stand for containers."""
    images: ImageMappings
    """The programs that images are mapped to."""
    egress: EgressTargets
    """The hosts and ports outside of the cluster that pods may reach."""
    isolation: RequestedIsolation
    """The isolation of programs in pods that was asked for."""
    has_load_balancers: bool
    """Whether services of type LoadBalancer get addresses."""
    faults: ActiveFaults
    """The active faults."""
    private_paths: tuple[str, ...]
    """Paths of the machine that programs in pods must not see, as the kubeconfig."""
    server_address: tuple[str, int]
    """The host and port of the API server on this machine."""
    root_ca: str
    """The CA certificate for clients inside the cluster, as PEM."""
    addresses: ServiceRange
    """The cluster IPs of services."""
    rbac: AccessReviewer
    """The authorizer."""
    accounts: TokenIssuer
    """The tokens of service accounts."""

    def __init__(self, clock: SimClock, store: Store) -> None:
        self.clock = clock
        self.store = store
        self.kinds = Scheme()
        self.services = Services()
        self.exploration = NoExploration()
        self.tasks = Tasks()
        self.kubelets = {}
        self.scripts = ScriptRules()
        self.images = ImageMappings()
        self.egress = EgressTargets()
        self.isolation = "auto"
        self.has_load_balancers = False
        self.faults = ActiveFaults()
        self.private_paths = ()
        self.server_address = ("127.0.0.1", 0)
        self.root_ca = ""

    def use_tasks(self, tasks: Tasks) -> None:
        """Run the work of components in `tasks` from now on."""
        self.tasks = tasks
        self.clock.run = tasks.run

    # -- reading

    def kind_of(self, resource: str) -> Kind:
        """Return the kind of `pods` or `jobs.batch`.

        Raises:
            StatusError: 404, the resource is not served.
        """
        kind = self.kinds.find(resource)
        if kind is None:
            raise resource_not_found()
        return kind

    def entry(self, kind: Kind, name: str, namespace: str = "") -> Entry:
        """Return the stored entry of an object.

        Raises:
            StatusError: 404, the object does not exist.
        """
        entry = self.store.get(kind.bucket, key_of(name, namespace if kind.namespaced else ""))
        if entry is None:
            raise not_found(kind.group, kind.plural, name)
        return entry

    def get(self, resource: str, name: str, namespace: str = "") -> Obj:
        """Return the object.

        Raises:
            StatusError: 404, the object does not exist.
        """
        return self.entry(self.kind_of(resource), name, namespace).obj

    def find(self, resource: str, name: str, namespace: str = "") -> Obj | None:
        """Return the object, None if it does not exist."""
        kind = self.kind_of(resource)
        entry = self.store.get(kind.bucket, key_of(name, namespace if kind.namespaced else ""))
        return None if entry is None else entry.obj

    def find_live(self, resource: str, name: str, namespace: str = "") -> Obj | None:
        """As `find`, past what a copy of another server's objects has not seen yet."""
        return self.find(resource, name, namespace)

    def list(self, resource: str, namespace: str | None = None) -> list[Obj]:
        """Return the objects in the order of their keys; None means all namespaces."""
        return [entry.obj for entry in self.store.entries(self.kind_of(resource).bucket, namespace)]

    # -- subscribing

    def subscribe(
        self, resource: str, handler: Callable[[str, Obj, Obj | None], None]
    ) -> Callable[[], None]:
        """Call `handler(type, new, old)` for each present object, then for each change.

        Returns:
            A function that ends the subscription.
        """
        bucket = self.kind_of(resource).bucket
        for entry in self.store.entries(bucket):
            handler("ADDED", entry.obj, None)

        def on_change(change: Change) -> None:
            handler(change.type, change.new.obj, change.old.obj if change.old else None)

        return self.store.watch(bucket, on_change)

    def subscribe_all(self, handler: Callable[[str, str, Obj, Obj | None], None]) -> None:
        """Call `handler(resource, type, new, old)` for each object, then for each change."""
        for resource in self.store.resources():
            for entry in self.store.entries(resource):
                handler(resource, "ADDED", entry.obj, None)

        def on_change(resource: str, change: Change) -> None:
            handler(resource, change.type, change.new.obj, change.old.obj if change.old else None)

        self.store.listen(on_change)

    # -- writing

    def decode(self, kind: Kind, obj: Obj, caller: Caller) -> Obj:
        """Return `obj` in its storage version: typed, pruned, defaulted.

        Raises:
            StatusError: 400 for a value of a wrong type, or for unknown fields if they are refused.
        """
        ...

    def create(
        self,
        resource: str | Kind,
        obj: Obj,
        namespace: str = "",
        *,
        caller: Caller | None = None,
        decoded: bool = False,
    ) -> Obj:
        """Store a new object and return it as stored.

        Raises:
            StatusError: the request is invalid or denied.
        """
        ...

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
        ...

    def update_status(self, resource: str, obj: Obj, *, caller: Caller | None = None) -> Obj:
        """Replace an object's status and return the object as stored.

        Raises:
            StatusError: 404 not found, 409 conflict.
        """
        return self.update(resource, obj, subresource="status", caller=caller)

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
        ...

    def apply(self, resource: str, configuration: Obj, *, manager: str) -> Obj:
        """Apply a configuration, even against other field managers; return the object as stored.

        Args:
            manager: the field manager.

        Raises:
            StatusError: the request is invalid or denied.
        """
        ...

    def scale(self, kind: Kind, name: str, namespace: str, replicas: int) -> Obj:
        """Set an object's replicas by its Scale and return the object as stored.

        Raises:
            StatusError: 404 not found, or the request is invalid or denied.
        """
        ...

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
        ...

    def bind(self, namespace: str, pod: str, node: str) -> None:
        """Assign a pod to a node and mark it as scheduled, in one write.

        Raises:
            StatusError: 404 not found, 409 already assigned or being deleted.
        """

    def renew(self, namespace: str, lease: str) -> bool:
        """Renew a lease; returns whether it exists."""
        ...


class ApiServerCluster(Cluster, Protocol):
    """A cluster whose API server runs in this process."""

    has_controllers: bool
    """True if there are controllers besides those of kube-apiserver."""
    time_scale: float
    """The time of its controllers, as a fraction of a real cluster's."""
    before_write: list[Callable[[Kind, Obj, Obj | None], None]]
    """Called with each object before it is stored, with the one that it replaces or None."""
    admission: Admission
    """The admission plugins."""
    addresses: ServiceAddresses
    """The allocator of services."""
    rbac: Authorizer
    """The authorizer."""
    accounts: TokenAuthority
    """The tokens of service accounts."""

    @property
    def front_proxy(self) -> FrontProxy:
        """The certificate of requests to aggregated servers."""

    def strategy(self, kind: Kind) -> Strategy:
        """Return the strategy of `kind`."""
        ...

    def has_webhooks(self) -> bool:
        """Return whether a write may have to wait for a webhook, of admission or of conversion."""
        ...

    def decode(self, kind: Kind, obj: Obj, caller: Caller, *, keeps_nulls: bool = False) -> Obj:
        """As `Cluster.decode`.

        Custom kinds stay in their version until they are written, and with `keeps_nulls` have the
        nulls that their schema does not allow.
        """
        ...

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
        """As `Cluster.create`; `record` sets the field managers of the object."""
        ...

    def replace(
        self, kind: Kind, entry: Entry, obj: Obj, subresource: str | None, caller: Caller
    ) -> Obj:
        """Replace `entry` by `obj`; nothing is written if nothing changes.

        Raises:
            StatusError: the request is invalid or denied.
        """
        ...

    def replace_decoded(
        self,
        kind: Kind,
        entry: Entry,
        new: Obj,
        subresource: str | None,
        caller: Caller,
        record: Callable[[Obj], None] | None = None,
    ) -> Obj:
        """As `replace` for a decoded object; `record` sets its field managers."""
        ...

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
        """As `Cluster.delete`; `is_named` is False for one of a deleted collection.

        Admission sees no name of that.
        """
        ...

    def delete_admitted(
        self, resource: str, name: str, namespace: str, *, options: Obj, dry_run: bool
    ) -> None:
        """Delete an object for a request that admission has already allowed."""

    def bind(
        self,
        namespace: str,
        pod: str,
        node: str,
        *,
        binding: Obj | None = None,
        dry_run: bool = False,
    ) -> None:
        """As `Cluster.bind`, also for an API request.

        Args:
            binding: the Binding object of the request.
            dry_run: whether nothing is stored.
        """
