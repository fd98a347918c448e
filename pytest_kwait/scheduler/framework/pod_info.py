"""A pod with its scheduling constraints parsed: affinity, spread, tolerations, requests, ports.

It is parsed once per pod, not once per node.

Source: kube-scheduler, framework/types.go (`PodInfo`, `AffinityTerm`),
framework/plugins/podtopologyspread/common.go; component-helpers, resource/helpers.go.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.quantities import parse_milli_value, parse_value
from pytest_kwait.apimachinery.selectors import LabelSelector, Requirement
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.scheduler.framework.node_affinity import (
    NodeSelectorTerm,
    RequiredNodeAffinity,
    read_preferred_node_affinity,
)
from pytest_kwait.scheduler.framework.object_fields import (
    InvalidObject,
    InvalidPod,
    get_int,
    get_mapping,
    get_mappings,
    get_string,
    get_strings,
    read_label_selector,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

# Integers by resource name: `cpu` in thousandths of a core, all others in their own unit.
ResourceAmounts = dict[str, int]
# (protocol, host address, port)
HostPort = tuple[str, str, int]

DEFAULT_REQUESTS: ResourceAmounts = {"cpu": 100, "memory": 200 * 1024 * 1024}
"""The requests that scores assume for containers without any, to spread such pods too.

Source: kube-scheduler, util/pod_resources.go, `DefaultMilliCPURequest`, `DefaultMemoryRequest`.
"""

_ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - the API's word for any address; nothing is bound here
NATIVE_RESOURCES = ("cpu", "memory", "ephemeral-storage")
# The effects that prevent scheduling.
DO_NOT_SCHEDULE_EFFECTS = frozenset({"NoExecute", "NoSchedule"})
# The effect that only lowers a node's score.
PREFER_NO_SCHEDULE = "PreferNoSchedule"

DEFAULT_SCHEDULER = "default-scheduler"
"""The scheduler of pods that name none."""

_DO_NOT_SCHEDULE = "DoNotSchedule"
_SCHEDULE_ANYWAY = "ScheduleAnyway"
_POLICIES = ("Honor", "Ignore")
_TOLERATION_OPERATORS = ("Equal", "Exists", "Lt", "Gt")

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NO_LABELS: Mapping[str, str] = {}

_NO_TERMS: Sequence[tuple[int, NodeSelectorTerm]] = ()


@dataclass(frozen=True, slots=True)
class TopologySpreadConstraint:
    """A limit of the skew between topology domains.

    Args:
        topology_key: the node label whose values are the domains.
        max_skew: how many more matching pods a domain may have than the one with the fewest.
        must: whether nodes that exceed it are rejected; they only score lower otherwise.
        selector: the labels of the pods that are counted.
        min_domains: with fewer domains, the global minimum counts as zero.
        honor_affinity: whether only nodes count that match the pod's node affinity.
        honor_taints: whether only nodes count whose taints the pod tolerates.

    Source: kube-scheduler, framework/plugins/podtopologyspread/common.go,
    `topologySpreadConstraint`.
    """

    topology_key: str
    max_skew: int
    must: bool
    selector: LabelSelector
    min_domains: int = 1
    honor_affinity: bool = True
    honor_taints: bool = False


def read_spread_constraints(
    spec: Mapping[str, Any], labels: Mapping[str, str]
) -> tuple[TopologySpreadConstraint, ...]:
    """Return a pod's own constraints.

    Args:
        spec: the pod's spec.
        labels: the pod's labels, which `matchLabelKeys` refers to.

    Raises:
        InvalidObject: they are invalid.
    """
    if not spec.get("topologySpreadConstraints"):
        return ()
    mappings = get_mappings(spec, "topologySpreadConstraints", "spec")
    return tuple(
        _constraint(mapping, f"spec.topologySpreadConstraints[{index}]", labels)
        for index, mapping in enumerate(mappings)
    )


def _constraint(
    mapping: Mapping[str, Any], path: str, labels: Mapping[str, str]
) -> TopologySpreadConstraint:
    selector = read_label_selector(
        get_mapping(mapping, "labelSelector", path)
        if mapping.get("labelSelector") is not None
        else None,
        f"{path}.labelSelector",
    )
    by_keys: list[Requirement] = [
        Requirement(key, "in", frozenset((labels[key],)))
        for key in get_strings(mapping, "matchLabelKeys", path)
        if key in labels
    ]
    return TopologySpreadConstraint(
        get_string(mapping, "topologyKey", path, required=True),
        get_int(mapping, "maxSkew", path, 1),
        _choice(
            mapping,
            "whenUnsatisfiable",
            path,
            (_DO_NOT_SCHEDULE, _SCHEDULE_ANYWAY),
            _DO_NOT_SCHEDULE,
        )
        == _DO_NOT_SCHEDULE,
        selector.narrowed(by_keys),
        get_int(mapping, "minDomains", path, 1),
        _choice(mapping, "nodeAffinityPolicy", path, _POLICIES, "Honor") == "Honor",
        _choice(mapping, "nodeTaintsPolicy", path, _POLICIES, "Ignore") == "Honor",
    )


def _choice(
    owner: Mapping[str, Any], name: str, path: str, known: tuple[str, ...], default: str
) -> str:
    value = owner.get(name) or default
    if value not in known:
        raise InvalidObject(f"{path}.{name}", value, f"use one of {', '.join(known)}")
    return str(value)


def read_tolerations(spec: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return a pod's tolerations.

    Raises:
        InvalidObject: they are invalid.
    """
    if not spec.get("tolerations"):
        return ()
    tolerations = get_mappings(spec, "tolerations", "spec")
    for index, toleration in enumerate(tolerations):
        where = f"spec.tolerations[{index}]"
        for name in ("key", "value", "effect"):
            get_string(toleration, name, where)
        if (toleration.get("operator") or "Equal") not in _TOLERATION_OPERATORS:
            valid = f"use one of {', '.join(_TOLERATION_OPERATORS)}"
            raise InvalidObject(f"{where}.operator", toleration["operator"], valid)
    return tolerations


def tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    """Return whether `toleration` covers `taint`.

    The operators `Lt` and `Gt` never match, as on clusters without the feature gate
    `TaintTolerationComparisonOperators`.

    Source: api, core/v1/toleration.go, `ToleratesTaint`.
    """
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    match toleration.get("operator") or "Equal":
        case "Exists":
            return True
        case "Equal":
            return (toleration.get("value") or "") == (taint.get("value") or "")
    return False


def find_untolerated_taint(
    taints: Iterable[Mapping[str, Any]],
    tolerations: Iterable[Mapping[str, Any]],
    effects: Collection[str] = DO_NOT_SCHEDULE_EFFECTS,
) -> Mapping[str, Any] | None:
    """Return the first taint of one of `effects` that no toleration covers; None for none."""
    tolerations = tuple(tolerations)
    for taint in taints:
        if taint.get("effect") in effects and not any(
            tolerates(toleration, taint) for toleration in tolerations
        ):
            return taint
    return None


@dataclass(frozen=True, slots=True, eq=False)
class AffinityTerm:
    """An affinity term: pods by namespace and labels, and a topology key.

    Equal terms compare equal.

    Args:
        namespaces: the names of the namespaces.
        namespace_selector: the labels of further namespaces.
        selector: the labels of the pods.
        topology_key: the node label whose values are the topology domains.

    Source: kube-scheduler, framework/types.go, `AffinityTerm`.
    """

    namespaces: frozenset[str]
    namespace_selector: LabelSelector
    selector: LabelSelector
    topology_key: str
    key: str = field(init=False)

    def __post_init__(self) -> None:
        selectors = self.namespace_selector.key, self.selector.key
        key = repr((sorted(self.namespaces), *selectors, self.topology_key))
        object.__setattr__(self, "key", key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AffinityTerm) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def is_memoizable(self) -> bool:
        """True if matching depends on the pods only, not on their namespaces' labels."""
        return self.namespace_selector.nothing or self.namespace_selector.everything

    def matches_pod(
        self,
        namespace: str,
        labels: Mapping[str, str],
        namespace_labels: Callable[[str], Mapping[str, str] | None],
        *,
        of_incoming: bool,
    ) -> bool:
        """Return whether a pod of this namespace and with these labels matches.

        The incoming pod's own term matches existing namespaces, and all of them if its selector
        holds without any label (`DoesNotExist`, `NotIn`), as kube-scheduler 1.36 does; for terms of
        pods on nodes only the labels of the namespace count.

        Args:
            namespace: the pod's namespace.
            labels: the pod's labels.
            namespace_labels: returns the labels of a namespace, None if it does not exist.
            of_incoming: whether the term is the incoming pod's own.

        Source: kube-scheduler, framework/plugins/interpodaffinity/plugin.go,
        `mergeAffinityTermNamespacesIfNotEmpty`.
        """
        if namespace not in self.namespaces:
            selector = self.namespace_selector
            if selector.nothing:
                return False
            if not (selector.everything or (of_incoming and selector.matches(_NO_LABELS))):
                labels_of_namespace = namespace_labels(namespace)
                if labels_of_namespace is None and of_incoming:
                    return False
                if not selector.matches(labels_of_namespace or _NO_LABELS):
                    return False
        return self.selector.matches(labels)


class PodAffinity:
    """A pod's affinity and anti-affinity to other pods.

    Args:
        affinity: the pod's `spec.affinity`.
        namespace: the pod's namespace, the default of terms.
        labels: the pod's labels, which `matchLabelKeys` and `mismatchLabelKeys` refer to.

    Raises:
        InvalidObject: the field is invalid.
    """

    __slots__ = ("preferred", "preferred_apart", "required", "required_apart")

    def __init__(
        self, affinity: Mapping[str, Any], namespace: str, labels: Mapping[str, str]
    ) -> None:
        path = "spec.affinity"
        together = get_mapping(affinity, "podAffinity", path)
        apart = get_mapping(affinity, "podAntiAffinity", path)
        together_path, apart_path = f"{path}.podAffinity", f"{path}.podAntiAffinity"
        self.required = _required(together, together_path, namespace, labels)
        self.required_apart = _required(apart, apart_path, namespace, labels)
        self.preferred = _preferred(together, together_path, namespace, labels)
        self.preferred_apart = _preferred(apart, apart_path, namespace, labels)

    def __bool__(self) -> bool:
        return bool(self.required or self.required_apart or self.has_preferred_terms)

    @property
    def weighted_terms(self) -> Iterable[tuple[int | None, AffinityTerm]]:
        """Its terms by weight: negative for preferred anti-affinity, None for required affinity."""
        for term in self.required:
            yield None, term
        yield from self.preferred
        for weight, term in self.preferred_apart:
            yield -weight, term

    @property
    def has_preferred_terms(self) -> bool:
        """True if it has preferred terms."""
        return bool(self.preferred or self.preferred_apart)


def _required(
    owner: Mapping[str, Any], path: str, namespace: str, labels: Mapping[str, str]
) -> tuple[AffinityTerm, ...]:
    return tuple(
        _term(mapping, f"{path}.{_REQUIRED}[{index}]", namespace, labels)
        for index, mapping in enumerate(get_mappings(owner, _REQUIRED, path))
    )


def _preferred(
    owner: Mapping[str, Any], path: str, namespace: str, labels: Mapping[str, str]
) -> tuple[tuple[int, AffinityTerm], ...]:
    terms = []
    for index, weighted_term in enumerate(get_mappings(owner, _PREFERRED, path)):
        where = f"{path}.{_PREFERRED}[{index}]"
        term = get_mapping(weighted_term, "podAffinityTerm", where)
        weight = get_int(weighted_term, "weight", where, 0)
        terms.append((weight, _term(term, f"{where}.podAffinityTerm", namespace, labels)))
    return tuple(terms)


def _term(
    term: Mapping[str, Any], path: str, namespace: str, labels: Mapping[str, str]
) -> AffinityTerm:
    named = get_strings(term, "namespaces", path)
    if not named and term.get("namespaceSelector") is None:
        named = (namespace,)
    selector = read_label_selector(
        get_mapping(term, "labelSelector", path) if term.get("labelSelector") is not None else None,
        f"{path}.labelSelector",
    )
    return AffinityTerm(
        frozenset(named),
        read_label_selector(
            get_mapping(term, "namespaceSelector", path)
            if term.get("namespaceSelector") is not None
            else None,
            f"{path}.namespaceSelector",
        ),
        selector.narrowed(_key_requirements(term, path, labels, selector)),
        get_string(term, "topologyKey", path, required=True),
    )


def _key_requirements(
    term: Mapping[str, Any], path: str, labels: Mapping[str, str], selector: LabelSelector
) -> list[Requirement]:
    """Return the requirements that `matchLabelKeys` and `mismatchLabelKeys` add to the selector.

    The API server has written them into the selector of a pod that it created.

    Source: pkg/registry/core/pod/strategy.go, `applyMatchLabelKeysAndMismatchLabelKeys`.
    """
    written = {(key, operator) for key, operator, _ in selector.requirements}
    return [
        Requirement(key, operator, frozenset((labels[key],)))
        for field, operator in (("matchLabelKeys", "in"), ("mismatchLabelKeys", "notin"))
        for key in get_strings(term, field, path)
        if key in labels and (key, operator) not in written
    ]


NO_POD_AFFINITY = PodAffinity({}, "", {})
"""The affinity of a pod without terms."""


class PodInfo:
    """A pod with its scheduling constraints parsed.

    Args:
        pod: the Pod as the API has it.
        started: whether it is on a node already (see `PodRequests`).

    Raises:
        InvalidPod: the pod is invalid.
    """

    __slots__ = (
        "affinity",
        "assumed",
        "assumed_before",
        "ending",
        "labels",
        "name",
        "namespace",
        "node_name",
        "pod",
        "ports",
        "preferred_nodes",
        "requests",
        "required_nodes",
        "spread",
        "tolerations",
        "uid",
    )

    def __init__(self, pod: Mapping[str, Any], *, started: bool = False) -> None:
        try:
            self._read(pod, started)
        except InvalidObject as error:
            raise _make_invalid_pod(pod, error) from None

    def _read(self, pod: Mapping[str, Any], started: bool) -> None:
        if not isinstance(pod, dict):
            raise InvalidObject("pod", pod, "use a mapping")
        self.pod: dict[str, Any] = pod
        metadata, spec = get_mapping(pod, "metadata", ""), get_mapping(pod, "spec", "")
        self.name = get_string(metadata, "name", "metadata")
        self.namespace = get_string(metadata, "namespace", "metadata")
        self.uid = get_string(metadata, "uid", "metadata")
        self.ending = metadata.get("deletionTimestamp") is not None
        self.labels: Mapping[str, str] = get_mapping(metadata, "labels", "metadata")
        self.node_name = get_string(spec, "nodeName", "spec")
        requests = PodRequests(pod, started=started)
        #: Its requests.
        self.requests: ResourceAmounts = filter_tracked_resources(requests.total())
        #: The cpu and memory that scores assume for it while it is on a node.
        self.assumed: ResourceAmounts = requests.assumed()
        #: The same before it is on a node: without pod-level requests, as kube-scheduler 1.36 does.
        self.assumed_before: ResourceAmounts = requests.assumed(whole=False)
        self.ports: frozenset[HostPort] = frozenset(list_host_ports(pod))
        self.tolerations = read_tolerations(spec)
        self.required_nodes: RequiredNodeAffinity | None = None
        self.preferred_nodes = _NO_TERMS
        affinity = spec.get("affinity")
        if spec.get("nodeSelector") or affinity:
            self.required_nodes = RequiredNodeAffinity(spec) or None
        #: Its affinity and anti-affinity terms.
        self.affinity = NO_POD_AFFINITY
        if affinity:
            self.preferred_nodes = read_preferred_node_affinity(spec)
            self.affinity = PodAffinity(affinity, self.namespace, self.labels)
        #: Its topology spread constraints.
        self.spread = read_spread_constraints(spec, self.labels)

    def invalid(self, error: InvalidObject) -> InvalidPod:
        """Return `error` with the pod's name."""
        return _make_invalid_pod(self.pod, error)


def _make_invalid_pod(pod: object, error: InvalidObject) -> InvalidPod:
    metadata = pod.get("metadata") if isinstance(pod, dict) else None
    named = metadata if isinstance(metadata, dict) else {}
    owner = f"pod {named.get('namespace') or 'default'}/{named.get('name') or ''}"
    return InvalidPod(error.what.lstrip("."), error.value, error.valid, owner)


def parse_resource_list(
    quantities: Mapping[str, str | int | float] | None, path: str = ""
) -> ResourceAmounts:
    """Return a resource list of the API (`requests`, `allocatable`, …) as integers.

    Args:
        quantities: the list; None is an empty one.
        path: its path, for the error.

    Raises:
        InvalidObject: a value is not a quantity, or negative.
    """
    amounts: ResourceAmounts = {}
    for name, quantity in (quantities or {}).items():
        try:
            amount = parse_milli_value(quantity) if name == "cpu" else parse_value(quantity)
        except (InvalidArgument, TypeError) as error:
            valid = error.valid if isinstance(error, InvalidArgument) else "use a quantity"
            raise InvalidObject(f"{path}.{name}", quantity, valid) from None
        if amount < 0:
            raise InvalidObject(f"{path}.{name}", quantity, "use a quantity of at least 0")
        amounts[name] = amount
    return amounts


def _add(total: ResourceAmounts, more: ResourceAmounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _set_to_max(total: ResourceAmounts, other: ResourceAmounts) -> None:
    for name, amount in other.items():
        if amount > total.get(name, 0):
            total[name] = amount


def _is_tracked_resource(name: str) -> bool:
    return name in NATIVE_RESOURCES or "/" in name or _is_pod_level_resource(name)


def _is_pod_level_resource(name: str) -> bool:
    """Return whether the resource can be requested for a pod as a whole.

    Source: component-helpers, resource/helpers.go, `IsSupportedPodLevelResource`.
    """
    return name in ("cpu", "memory") or name.startswith("hugepages-")


class PodRequests:
    """The requests of a pod's containers, parsed once.

    Args:
        pod: the Pod as the API has it.
        started: whether it may run already: the resources that the kubelet allocated to a container
            in a resize count then, if greater.

    Raises:
        InvalidObject: the pod is invalid.

    Source: component-helpers, resource/helpers.go, `PodRequests`.
    """

    __slots__ = ("_containers", "_initial", "_overhead", "_whole")

    def __init__(self, pod: Mapping[str, Any], *, started: bool = False) -> None:
        spec = get_mapping(pod, "spec", "")
        status_resources = _StatusResources(pod) if started and pod.get("status") else None
        self._containers: list[ResourceAmounts] = []
        for index, container in enumerate(get_mappings(spec, "containers", "spec")):
            path = f"spec.containers[{index}]"
            self._containers.append(_requests(container, path, status_resources))
        # (requests, whether it is restartable and runs beside the containers)
        self._initial: list[tuple[ResourceAmounts, bool]] = []
        for index, container in enumerate(get_mappings(spec, "initContainers", "spec")):
            path = f"spec.initContainers[{index}]"
            stays = container.get("restartPolicy") == "Always"
            self._initial.append(
                (_requests(container, path, status_resources if stays else None), stays)
            )
        self._whole: ResourceAmounts = {}
        if spec.get("resources"):
            whole = _requests(spec, "spec", None)
            self._whole = {name: whole[name] for name in whole if _is_pod_level_resource(name)}
            if status_resources is not None:
                status_resources.raise_whole(self._whole)
        self._overhead: ResourceAmounts = {}
        if spec.get("overhead"):
            self._overhead = parse_resource_list(
                get_mapping(spec, "overhead", "spec"), "spec.overhead"
            )

    def total(self) -> ResourceAmounts:
        """Return the resources that the node must have free; unrequested names are absent.

        The total is the containers' sum, or the peak of an init container together with the
        restartable ones started before it if that is greater; pod-level requests replace both;
        overhead is added.
        """
        return self._sum({}, self._whole)

    def assumed(self, *, whole: bool = True) -> ResourceAmounts:
        """Return the same with `DEFAULT_REQUESTS` for containers without requests.

        Args:
            whole: whether pod-level requests count.

        Source: kube-scheduler, framework/types.go, `CalculateResource`;
        framework/plugins/noderesources/resource_allocation.go, `calculatePodResourceRequest`.
        """
        if not (whole and self._whole):
            return self._sum(DEFAULT_REQUESTS, {})
        known = self.total()
        missing = {name: amount for name, amount in DEFAULT_REQUESTS.items() if name not in known}
        return self._sum(missing, self._whole)

    def _sum(self, assumed: ResourceAmounts, whole: ResourceAmounts) -> ResourceAmounts:
        if len(self._containers) == 1 and not (self._initial or whole or self._overhead):
            return {**assumed, **self._containers[0]}
        total: ResourceAmounts = {}
        for requests in self._containers:
            _add(total, {**assumed, **requests})
        sidecars: ResourceAmounts = {}
        peak: ResourceAmounts = {}
        for requests, stays in self._initial:
            needed = {**assumed, **requests}
            if stays:
                _add(total, needed)
                _add(sidecars, needed)
                _set_to_max(peak, sidecars)
            else:
                _add(needed, sidecars)
                _set_to_max(peak, needed)
        _set_to_max(total, peak)
        total.update(whole)
        _add(total, self._overhead)
        return total


class _StatusResources:
    """The resources in the status of a pod's containers.

    Source: component-helpers, resource/helpers.go, `determineEffectiveRequests`.
    """

    def __init__(self, pod: Mapping[str, Any]) -> None:
        status = get_mapping(pod, "status", "")
        self._status = status
        self._statuses = {
            mapping.get("name"): mapping
            for field in ("containerStatuses", "initContainerStatuses")
            for mapping in get_mappings(status, field, "status")
            if mapping.get("resources") is not None
        }
        self._refused = any(
            mapping.get("type") == "PodResizePending" and mapping.get("reason") == "Infeasible"
            for mapping in get_mappings(status, "conditions", "status")
        )

    def effective(self, name: object, requests: ResourceAmounts) -> ResourceAmounts:
        """Return the effective requests of the container `name`."""
        status = self._statuses.get(name)
        return requests if status is None else self._most(status, requests)

    def raise_whole(self, requests: ResourceAmounts) -> None:
        """Raise the pod-level requests to those of the status, in place."""
        if requests and self._status.get("resources") is not None:
            most = self._most(self._status, requests)
            for name in requests:
                requests[name] = most.get(name, 0)

    def _most(self, status: Mapping[str, Any], requests: ResourceAmounts) -> ResourceAmounts:
        most = {} if self._refused else dict(requests)
        _set_to_max(most, _requests(status, "status", None))
        _set_to_max(
            most, parse_resource_list(status.get("allocatedResources"), "status.allocatedResources")
        )
        return most


def _requests(
    container: Mapping[str, Any], path: str, status_resources: _StatusResources | None
) -> ResourceAmounts:
    resources = get_mapping(container, "resources", path)
    if not resources:
        return {}
    path = f"{path}.resources"
    requests = parse_resource_list(get_mapping(resources, "requests", path), f"{path}.requests")
    return (
        requests
        if status_resources is None
        else status_resources.effective(container.get("name"), requests)
    )


def sum_pod_requests(pod: Mapping[str, Any], *, started: bool = False) -> ResourceAmounts:
    """Return the resources that the node must have free for `pod` (see `PodRequests`).

    Raises:
        InvalidObject: the pod is invalid.
    """
    return filter_tracked_resources(PodRequests(pod, started=started).total())


def filter_tracked_resources(total: ResourceAmounts) -> ResourceAmounts:
    """Return the resources that the scheduler tracks: known ones and those with a domain."""
    for name in total:
        if not _is_tracked_resource(name):
            return {name: amount for name, amount in total.items() if _is_tracked_resource(name)}
    return total


def list_host_ports(pod: Mapping[str, Any]) -> set[HostPort]:
    """Return the host ports of `pod`, sidecars included.

    Raises:
        InvalidObject: the pod is invalid.

    Source: kube-scheduler, util/utils.go, `GetHostPorts`.
    """
    spec = get_mapping(pod, "spec", "")
    host_ports: set[HostPort] = set()
    for container_field in ("containers", "initContainers"):
        for index, container in enumerate(get_mappings(spec, container_field, "spec")):
            if not container.get("ports"):
                continue
            if container_field == "containers" or container.get("restartPolicy") == "Always":
                host_ports |= _container_ports(container, f"spec.{container_field}[{index}]")
    return host_ports


def _container_ports(container: Mapping[str, Any], path: str) -> set[HostPort]:
    host_ports = set()
    for index, port in enumerate(get_mappings(container, "ports", path)):
        where = f"{path}.ports[{index}]"
        number = get_int(port, "hostPort", where, 0)
        if number > 0:
            protocol = get_string(port, "protocol", where) or "TCP"
            host_ports.add((protocol, get_string(port, "hostIP", where) or _ANY_ADDRESS, number))
    return host_ports


def has_port_conflict(host_ports: Iterable[HostPort], used: Iterable[HostPort]) -> bool:
    """Return whether one of `host_ports` conflicts, on the same address or on all of them."""
    return any(
        protocol == used_protocol
        and port == used_port
        and (address == used_address or _ANY_ADDRESS in (address, used_address))
        for protocol, address, port in host_ports
        for used_protocol, used_address, used_port in used
    )
