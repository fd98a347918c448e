"""A pod with its scheduling constraints parsed: affinity, spread, tolerations, requests, ports.

It is parsed once per pod, not once per node.

Source: kube-scheduler, framework/types.go (`PodInfo`, `AffinityTerm`),
framework/plugins/podtopologyspread/common.go.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.selectors import LabelSelector, Requirement
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
from pytest_kwait.scheduler.framework.resource_requests import (
    HostPort,
    PodRequests,
    ResourceAmounts,
    filter_tracked_resources,
    list_host_ports,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

__all__ = [
    "DEFAULT_SCHEDULER",
    "DO_NOT_SCHEDULE_EFFECTS",
    "NO_POD_AFFINITY",
    "PREFER_NO_SCHEDULE",
    "AffinityTerm",
    "PodAffinity",
    "PodInfo",
    "TopologySpreadConstraint",
    "find_untolerated_taint",
    "read_spread_constraints",
    "read_tolerations",
    "tolerates",
]

_DO_NOT_SCHEDULE = "DoNotSchedule"
_SCHEDULE_ANYWAY = "ScheduleAnyway"
_POLICIES = ("Honor", "Ignore")


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
    found = get_mappings(spec, "topologySpreadConstraints", "spec")
    return tuple(
        _constraint(one, f"spec.topologySpreadConstraints[{index}]", labels)
        for index, one in enumerate(found)
    )


def _constraint(
    given: Mapping[str, Any], path: str, labels: Mapping[str, str]
) -> TopologySpreadConstraint:
    selector = read_label_selector(
        get_mapping(given, "labelSelector", path)
        if given.get("labelSelector") is not None
        else None,
        f"{path}.labelSelector",
    )
    by_keys: list[Requirement] = [
        Requirement(key, "in", frozenset((labels[key],)))
        for key in get_strings(given, "matchLabelKeys", path)
        if key in labels
    ]
    return TopologySpreadConstraint(
        get_string(given, "topologyKey", path, required=True),
        get_int(given, "maxSkew", path, 1),
        _choice(
            given, "whenUnsatisfiable", path, (_DO_NOT_SCHEDULE, _SCHEDULE_ANYWAY), _DO_NOT_SCHEDULE
        )
        == _DO_NOT_SCHEDULE,
        selector.narrowed(by_keys),
        get_int(given, "minDomains", path, 1),
        _choice(given, "nodeAffinityPolicy", path, _POLICIES, "Honor") == "Honor",
        _choice(given, "nodeTaintsPolicy", path, _POLICIES, "Ignore") == "Honor",
    )


def _choice(
    owner: Mapping[str, Any], name: str, path: str, known: tuple[str, ...], default: str
) -> str:
    found = owner.get(name) or default
    if found not in known:
        raise InvalidObject(f"{path}.{name}", found, f"use one of {', '.join(known)}")
    return str(found)


# The effects that prevent scheduling.
DO_NOT_SCHEDULE_EFFECTS = frozenset({"NoExecute", "NoSchedule"})
# The effect that only lowers a node's score.
PREFER_NO_SCHEDULE = "PreferNoSchedule"

_TOLERATION_OPERATORS = ("Equal", "Exists", "Lt", "Gt")


def read_tolerations(spec: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return a pod's tolerations.

    Raises:
        InvalidObject: they are invalid.
    """
    if not spec.get("tolerations"):
        return ()
    tolerations = get_mappings(spec, "tolerations", "spec")
    for index, one in enumerate(tolerations):
        where = f"spec.tolerations[{index}]"
        for name in ("key", "value", "effect"):
            get_string(one, name, where)
        if (one.get("operator") or "Equal") not in _TOLERATION_OPERATORS:
            valid = f"use one of {', '.join(_TOLERATION_OPERATORS)}"
            raise InvalidObject(f"{where}.operator", one["operator"], valid)
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
        if taint.get("effect") in effects and not any(tolerates(one, taint) for one in tolerations):
            return taint
    return None


DEFAULT_SCHEDULER = "default-scheduler"
"""The scheduler of pods that name none."""

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NO_LABELS: Mapping[str, str] = {}


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
                found = namespace_labels(namespace)
                if found is None and of_incoming:
                    return False
                if not selector.matches(found or _NO_LABELS):
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
        _term(one, f"{path}.{_REQUIRED}[{index}]", namespace, labels)
        for index, one in enumerate(get_mappings(owner, _REQUIRED, path))
    )


def _preferred(
    owner: Mapping[str, Any], path: str, namespace: str, labels: Mapping[str, str]
) -> tuple[tuple[int, AffinityTerm], ...]:
    found = []
    for index, one in enumerate(get_mappings(owner, _PREFERRED, path)):
        where = f"{path}.{_PREFERRED}[{index}]"
        term = get_mapping(one, "podAffinityTerm", where)
        weight = get_int(one, "weight", where, 0)
        found.append((weight, _term(term, f"{where}.podAffinityTerm", namespace, labels)))
    return tuple(found)


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


_NO_TERMS: Sequence[tuple[int, NodeSelectorTerm]] = ()


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
