"""The cluster as the embedded cluster's other modules see it.

`SimulatedCluster` in `cluster` implements it. Plugins, controllers, kubelets and handlers depend on
this interface alone, so that `cluster` can import those that it is made of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_kwait.simulator.admission.attributes import Attributes
    from pytest_kwait.simulator.authentication.pki import FrontProxy
    from pytest_kwait.simulator.clock import SimClock
    from pytest_kwait.simulator.faults import ActiveFaults
    from pytest_kwait.simulator.kubelet_api import KubeletApi
    from pytest_kwait.simulator.no_exploration import NoExploration
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.protocol.container_scripts import ScriptRules
    from pytest_kwait.simulator.protocol.egress import EgressTargets
    from pytest_kwait.simulator.protocol.image_mapping import ImageMappings
    from pytest_kwait.simulator.registry.strategy import Strategy
    from pytest_kwait.simulator.request_info import Authorizer, Caller, User
    from pytest_kwait.simulator.scheme import Kind, Scheme
    from pytest_kwait.simulator.services import Services
    from pytest_kwait.simulator.store import Entry, Store
    from pytest_kwait.simulator.suspendable import Tasks


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


class TokenAuthority(Protocol):
    """Issues and checks the tokens of service accounts."""

    @property
    def key_set(self) -> Obj:
        """The public key as a JSON Web Key Set."""

    def discovery(self, keys: str) -> Obj:
        """The OpenID Connect discovery document; `keys` is the URL of the key set."""

    def issue(self, account: Obj, request: Obj) -> Obj:
        """Answer a decoded TokenRequest; StatusError if it is invalid."""

    def legacy(self, account: Obj, secret: Obj) -> str:
        """The token of a secret, valid as long as the secret exists."""

    def user_of(self, token: str, audiences: Sequence[str] = ...) -> tuple[User, list[str]] | None:
        """The user and the matching audiences; None for a token of another issuer."""


class ServiceAddresses(Protocol):
    """Allocates the cluster IPs and node ports of services."""

    @property
    def cidrs(self) -> tuple[str, ...]:
        """The ranges of cluster IPs."""

    @property
    def kubernetes_address(self) -> str:
        """The cluster IP of the service `default/kubernetes`."""

    def begin_create(self, service: Obj, caller: Caller) -> Callable[[], None]:
        """Give a new service its addresses and ports; returns what ends the reservation."""

    def begin_update(self, service: Obj, old: Obj, caller: Caller) -> Callable[[], None]:
        """Give a changed service the addresses and ports that it lacks, as `begin_create`."""


class Cluster(Protocol):
    """The objects of one cluster; see `SimulatedCluster`."""

    @property
    def clock(self) -> SimClock:
        """The cluster's time."""

    @property
    def store(self) -> Store:
        """The stored objects."""

    @property
    def services(self) -> Services:
        """What components share."""

    @property
    def tasks(self) -> Tasks:
        """How the work of components is run."""

    @property
    def kinds(self) -> Scheme:
        """The kinds that the cluster serves."""

    @property
    def admission(self) -> Admission:
        """The admission plugins."""

    @property
    def addresses(self) -> ServiceAddresses:
        """The allocator of services."""

    @property
    def kubelets(self) -> dict[str, KubeletApi]:
        """The kubelets by node name."""

    @property
    def scripts(self) -> ScriptRules:
        """The scripts that stand for containers."""

    @property
    def images(self) -> ImageMappings:
        """The programs that images are mapped to."""

    @property
    def egress(self) -> EgressTargets:
        """The hosts and ports outside of the cluster that pods may reach."""

    @property
    def rbac(self) -> Authorizer:
        """The authorizer."""

    @property
    def faults(self) -> ActiveFaults:
        """The active faults."""

    @property
    def accounts(self) -> TokenAuthority:
        """The tokens of service accounts."""

    @property
    def front_proxy(self) -> FrontProxy:
        """The certificate of requests to aggregated servers."""

    exploration: NoExploration
    """The hooks of the exploration that perturbs the cluster."""
    private_paths: tuple[str, ...]
    """Paths of the machine that programs in pods must not see, as the kubeconfig."""
    server_address: tuple[str, int]
    """The host and port of the API server on this machine."""
    has_controllers: bool
    time_scale: float
    """The time of its controllers, as a fraction of a real cluster's."""
    root_ca: str
    before_write: list[Callable[[Kind, Obj, Obj | None], None]]

    def kind_of(self, resource: str) -> Kind:
        """The kind of `pods`, `jobs.batch`; StatusError 404 if it is not served."""

    def strategy(self, kind: Kind) -> Strategy:
        """The strategy of `kind`."""

    def entry(self, kind: Kind, name: str, namespace: str = "") -> Entry:
        """The stored form of an object; StatusError 404 if it does not exist."""

    def get(self, resource: str, name: str, namespace: str = "") -> Obj:
        """The object; StatusError 404 if it does not exist."""

    def find(self, resource: str, name: str, namespace: str = "") -> Obj | None:
        """The object, None if it does not exist."""

    def find_live(self, resource: str, name: str, namespace: str = "") -> Obj | None:
        """As `find`, past what a copy of another server's objects has not seen yet."""

    def list(self, resource: str, namespace: str | None = None) -> list[Obj]:
        """The objects in the order of their keys; None means all namespaces."""

    def subscribe(
        self, resource: str, handler: Callable[[str, Obj, Obj | None], None]
    ) -> Callable[[], None]:
        """Call `handler(type, new, old)` for each object and each change; returns an undo."""

    def subscribe_all(self, handler: Callable[[str, str, Obj, Obj | None], None]) -> None:
        """Call `handler(resource, type, new, old)` for each object and each change."""

    def decode(self, kind: Kind, obj: Obj, caller: Caller, *, keeps_nulls: bool = False) -> Obj:
        """`obj` in its storage version: typed, pruned, defaulted; StatusError 400 if invalid."""

    def has_webhooks(self) -> bool:
        """Return whether a write may have to wait for a webhook."""

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
        """Store a new object and return it as stored."""

    def update(
        self,
        resource: str | Kind,
        obj: Obj,
        *,
        subresource: str | None = None,
        caller: Caller | None = None,
    ) -> Obj:
        """Replace an object or one of its subresources and return it as stored."""

    def update_status(self, resource: str, obj: Obj, *, caller: Caller | None = None) -> Obj:
        """Replace an object's status and return the object as stored."""

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
        """Let `change` edit a copy of the object, write that and return it as stored."""

    def scale(self, kind: Kind, name: str, namespace: str, replicas: int) -> Obj:
        """Set an object's replicas by its Scale and return the object as stored."""

    def replace(
        self, kind: Kind, entry: Entry, obj: Obj, subresource: str | None, caller: Caller
    ) -> Obj:
        """Replace `entry` by `obj`; nothing is written if nothing changes."""

    def replace_decoded(
        self,
        kind: Kind,
        entry: Entry,
        new: Obj,
        subresource: str | None,
        caller: Caller,
        record: Callable[[Obj], None] | None = None,
    ) -> Obj:
        """Replace a decoded object; `record` sets its field managers."""

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
        """Delete an object or mark it for deletion; returns the object or a Status."""

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
        """Assign a pod to a node and mark it as scheduled, in one write."""

    def renew(self, namespace: str, lease: str) -> bool:
        """Renew a lease; returns whether it exists."""
