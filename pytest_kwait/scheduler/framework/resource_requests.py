"""Resource requests and host ports of a pod.

Source: component-helpers, resource/helpers.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.quantities import parse_milli_value, parse_value
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.scheduler.framework.object_fields import (
    InvalidObject,
    get_int,
    get_mapping,
    get_mappings,
    get_string,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "DEFAULT_REQUESTS",
    "NATIVE_RESOURCES",
    "HostPort",
    "PodRequests",
    "ResourceAmounts",
    "filter_tracked_resources",
    "has_port_conflict",
    "list_host_ports",
    "parse_resource_list",
    "sum_pod_requests",
]

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
    found: ResourceAmounts = {}
    for name, quantity in (quantities or {}).items():
        try:
            amount = parse_milli_value(quantity) if name == "cpu" else parse_value(quantity)
        except (InvalidArgument, TypeError) as error:
            valid = error.valid if isinstance(error, InvalidArgument) else "use a quantity"
            raise InvalidObject(f"{path}.{name}", quantity, valid) from None
        if amount < 0:
            raise InvalidObject(f"{path}.{name}", quantity, "use a quantity of at least 0")
        found[name] = amount
    return found


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
        given = _StatusResources(pod) if started and pod.get("status") else None
        self._containers: list[ResourceAmounts] = []
        for index, container in enumerate(get_mappings(spec, "containers", "spec")):
            path = f"spec.containers[{index}]"
            self._containers.append(_requests(container, path, given))
        # (requests, whether it is restartable and runs beside the containers)
        self._initial: list[tuple[ResourceAmounts, bool]] = []
        for index, container in enumerate(get_mappings(spec, "initContainers", "spec")):
            path = f"spec.initContainers[{index}]"
            stays = container.get("restartPolicy") == "Always"
            self._initial.append((_requests(container, path, given if stays else None), stays))
        self._whole: ResourceAmounts = {}
        if spec.get("resources"):
            whole = _requests(spec, "spec", None)
            self._whole = {name: whole[name] for name in whole if _is_pod_level_resource(name)}
            if given is not None:
                given.raise_whole(self._whole)
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
            one.get("name"): one
            for field in ("containerStatuses", "initContainerStatuses")
            for one in get_mappings(status, field, "status")
            if one.get("resources") is not None
        }
        self._refused = any(
            one.get("type") == "PodResizePending" and one.get("reason") == "Infeasible"
            for one in get_mappings(status, "conditions", "status")
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
    container: Mapping[str, Any], path: str, given: _StatusResources | None
) -> ResourceAmounts:
    resources = get_mapping(container, "resources", path)
    if not resources:
        return {}
    path = f"{path}.resources"
    requests = parse_resource_list(get_mapping(resources, "requests", path), f"{path}.requests")
    return requests if given is None else given.effective(container.get("name"), requests)


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
    found: set[HostPort] = set()
    for field in ("containers", "initContainers"):
        for index, container in enumerate(get_mappings(spec, field, "spec")):
            if not container.get("ports"):
                continue
            if field == "containers" or container.get("restartPolicy") == "Always":
                found |= _container_ports(container, f"spec.{field}[{index}]")
    return found


def _container_ports(container: Mapping[str, Any], path: str) -> set[HostPort]:
    found = set()
    for index, port in enumerate(get_mappings(container, "ports", path)):
        where = f"{path}.ports[{index}]"
        number = get_int(port, "hostPort", where, 0)
        if number > 0:
            protocol = get_string(port, "protocol", where) or "TCP"
            found.add((protocol, get_string(port, "hostIP", where) or _ANY_ADDRESS, number))
    return found


def has_port_conflict(wanted: Iterable[HostPort], used: Iterable[HostPort]) -> bool:
    """Return whether one of `wanted` conflicts, on the same address or on all of them."""
    return any(
        protocol == used_protocol
        and port == used_port
        and (address == used_address or _ANY_ADDRESS in (address, used_address))
        for protocol, address, port in wanted
        for used_protocol, used_address, used_port in used
    )
