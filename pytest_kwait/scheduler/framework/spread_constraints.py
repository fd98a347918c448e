"""Topology spread constraints of a pod, its own and the default ones.

Source: kube-scheduler, framework/plugins/podtopologyspread/common.go,
framework/plugins/helper/spread.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.labels import LabelSelector, Requirement
from pytest_kwait.scheduler.framework.invalid_objects import (
    InvalidObject,
    get_int,
    get_mapping,
    get_mappings,
    get_string,
    get_strings,
)
from pytest_kwait.scheduler.framework.label_selectors import read_label_selector

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "HOSTNAME",
    "TopologySpreadConstraint",
    "build_default_constraints",
    "collect_spread_selectors",
    "find_spreading_controller",
    "read_spread_constraints",
]

HOSTNAME = "kubernetes.io/hostname"
_ZONE = "topology.kubernetes.io/zone"
_DO_NOT_SCHEDULE = "DoNotSchedule"
_SCHEDULE_ANYWAY = "ScheduleAnyway"
_POLICIES = ("Honor", "Ignore")
_SPREADING_OWNERS = {
    "ReplicationController": "v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
}


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


def build_default_constraints(
    selectors: Sequence[Mapping[str, Any]],
) -> tuple[TopologySpreadConstraint, ...]:
    """Return the default constraints of pods without their own: soft, by node and zone.

    Args:
        selectors: the label selectors of the pod's services and controller; none means no
            spreading.

    Source: kube-scheduler, framework/plugins/podtopologyspread/plugin.go,
    `systemDefaultConstraints`; common.go, `buildDefaultConstraints`.
    """
    requirements = [
        one for selector in selectors for one in read_label_selector(selector).requirements
    ]
    if not requirements:
        return ()
    selector = LabelSelector(requirements)
    return (
        TopologySpreadConstraint(HOSTNAME, 3, False, selector),
        TopologySpreadConstraint(_ZONE, 5, False, selector),
    )


def find_spreading_controller(pod: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return kind and name of the controller whose selector spreads `pod`; None for none.

    Only replication controllers, replica sets and stateful sets spread their pods.
    """
    for owner in (pod.get("metadata") or {}).get("ownerReferences") or ():
        if owner.get("controller"):
            kind = owner.get("kind")
            if kind in _SPREADING_OWNERS and owner.get("apiVersion") == _SPREADING_OWNERS[kind]:
                return kind, owner.get("name") or ""
            return None
    return None


def collect_spread_selectors(
    pod: Mapping[str, Any],
    services: Iterable[Mapping[str, Any]],
    controller: Mapping[str, Any] | None,
) -> list[Mapping[str, Any]]:
    """Return the label selectors of the pod's services and controller.

    Used by `NodeLister.spread_selectors`.

    Args:
        pod: the Pod as the API has it.
        services: the services of its namespace.
        controller: the object from `find_spreading_controller`; None without one.

    Source: kube-scheduler, framework/plugins/helper/spread.go, `DefaultSelector`.
    """
    labels = (pod.get("metadata") or {}).get("labels") or {}
    found: list[Mapping[str, Any]] = []
    for service in services:
        wanted = (service.get("spec") or {}).get("selector")
        if wanted and all(labels.get(key) == value for key, value in wanted.items()):
            found.append({"matchLabels": wanted})
    selector = (controller.get("spec") or {}).get("selector") if controller else None
    if selector:
        # A replication controller's selector is a plain mapping of labels.
        plain = all(isinstance(value, str) for value in selector.values())
        found.append({"matchLabels": selector} if plain else selector)
    return found
