"""Conditions and waits on a service's endpoints: number, pods, ports, node.

The EndpointSlices decide. The Service and its selected pods are watched too, to explain missing
endpoints and to detect those that can no longer appear. By the API's rule an endpoint without a
ready condition is ready.

Source: kubernetes/test/e2e/framework/endpointslice/wait.go and service/jig.go.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypedDict, Unpack

from pytest_kwait.apimachinery.validation import check_name, check_namespace
from pytest_kwait.client.resource import ENDPOINT_SLICES, NODES, PODS, SERVICES
from pytest_kwait.client.responses import ObjectMeta
from pytest_kwait.engine.condition import (
    EvidenceScope,
    Failed,
    Grace,
    Met,
    ObjectSink,
    Pending,
    Source,
    TerminalState,
    Verdict,
)
from pytest_kwait.engine.object_sinks import ObjectCounter, ObjectState, decode_whole
from pytest_kwait.engine.options import check_count
from pytest_kwait.engine.pod_fields import (
    PodStatus,
    is_finished,
    is_ready,
    is_terminating,
    phase_label,
)
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.named_objects import ObjectCondition, count_noun
from pytest_kwait.framework.objects.lists import ListCondition
from pytest_kwait.framework.pod.controllers import PodControllers
from pytest_kwait.framework.pod.list_conditions import detect_unplaced
from pytest_kwait.framework.pod.placement import parse_pod_uids
from pytest_kwait.framework.predicates import UserPredicate
from pytest_kwait.framework.registry import wait
from pytest_kwait.framework.terminal_states.pods import detect_owned_pod_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from kubernetes.client import ApiClient

    from pytest_kwait.engine.options import WaitOptions
    from pytest_kwait.framework.named_objects import KubernetesObjects
    from pytest_kwait.framework.registry import ConditionOf

TerminalStateCheck: TypeAlias = (
    "Callable[[dict[str, Any], TerminalState | None], TerminalState | None]"
)

_ALIVE = "not finished"

_EXPECTED_PORT = re.compile(r"(?:([a-z0-9-]{1,63}):)?(\d{1,5})(?:/(TCP|UDP|SCTP))?")


class _Conditions(TypedDict, total=False):
    ready: bool | None
    terminating: bool | None


class _Target(TypedDict, total=False):
    kind: str | None
    namespace: str | None
    name: str | None
    uid: str | None


class _Endpoint(TypedDict, total=False):
    addresses: list[str] | None
    conditions: _Conditions | None
    targetRef: _Target | None
    nodeName: str | None


class _SlicePort(TypedDict, total=False):
    name: str | None
    protocol: str | None
    port: int | None


class SliceFields(TypedDict, total=False):
    """The fields of an EndpointSlice that waits read."""

    metadata: ObjectMeta
    endpoints: list[_Endpoint] | None
    ports: list[_SlicePort] | None


class PortMapping(NamedTuple):
    """A port on which a pod serves.

    Args:
        pod: its name.
        name: the name of the service's port; empty for the only one.
        protocol: `TCP`, `UDP` or `SCTP`.
        port: the number in the pod.
    """

    pod: str
    name: str
    protocol: str
    port: int


@dataclass(slots=True)
class _SliceCounts:
    """The contribution of one slice."""

    name: str
    raw: bytes
    addresses: list[str] = field(default_factory=list)
    ready: list[str] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)
    pods: list[tuple[str, str]] = field(default_factory=list)
    mappings: list[PortMapping] = field(default_factory=list)


class EndpointSliceStore(ObjectSink):
    """The sink of a service's slices.

    An address, pod or port that appears in several slices counts once.

    Args:
        namespace: their namespace; pods of other namespaces are ignored.
    """

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._shares: dict[str, _SliceCounts] = {}
        self._addresses: Counter[str] = Counter()
        self._ready: Counter[str] = Counter()
        self._nodes: Counter[str] = Counter()
        self._pods: Counter[tuple[str, str]] = Counter()
        self._mappings: Counter[PortMapping] = Counter()

    def put(self, obj: dict[str, Any], raw: bytes, now: float) -> None:
        """Add a slice, or replace its previous version."""
        metadata = obj["metadata"]
        uid = metadata.get("uid") or metadata["name"]
        self.drop(uid)
        share = _SliceCounts(metadata["name"], raw)
        for endpoint in obj.get("endpoints") or ():
            self._read(share, endpoint, obj.get("ports") or ())
        self._shares[uid] = share
        self._count(share, 1)

    def _read(self, share: _SliceCounts, endpoint: dict[str, Any], ports: Collection[Any]) -> None:
        addresses = endpoint.get("addresses") or ()
        if addresses:
            share.addresses.append(addresses[0])
            if (endpoint.get("conditions") or {}).get("ready") is not False:
                share.ready.append(addresses[0])
                share.nodes.append(endpoint.get("nodeName") or "")
        target = endpoint.get("targetRef") or {}
        name = target.get("name")
        if name and target.get("kind") == "Pod" and target.get("namespace") == self._namespace:
            share.pods.append((name, target.get("uid") or ""))
            for port in ports:
                if port.get("port") is not None:
                    protocol = port.get("protocol") or "TCP"
                    mapping = PortMapping(name, port.get("name") or "", protocol, port["port"])
                    share.mappings.append(mapping)

    def drop(self, uid: str) -> None:
        """Remove a slice; no-op for an unknown one."""
        share = self._shares.pop(uid, None)
        if share is not None:
            self._count(share, -1)

    def _count(self, share: _SliceCounts, by: int) -> None:
        for counter, items in self._counters(share):
            for item in items:
                counter[item] += by
                if not counter[item]:
                    del counter[item]

    def _counters(self, share: _SliceCounts) -> Iterator[tuple[Counter[Any], Collection[Any]]]:
        yield self._addresses, share.addresses
        yield self._ready, share.ready
        yield self._nodes, share.nodes
        yield self._pods, share.pods
        yield self._mappings, share.mappings

    def uids(self) -> Collection[str]:
        """Return the UIDs of the present slices."""
        return self._shares.keys()

    def __len__(self) -> int:
        return len(self._shares)

    @property
    def endpoints(self) -> int:
        """The number of endpoints, by their first addresses."""
        return len(self._addresses)

    @property
    def ready(self) -> int:
        """The number of ready endpoints."""
        return len(self._ready)

    @property
    def nodes(self) -> Collection[str]:
        """The nodes of the ready endpoints; an empty name if unspecified."""
        return self._nodes.keys()

    @property
    def pods(self) -> Collection[tuple[str, str]]:
        """The pods behind the endpoints, by name and UID."""
        return self._pods.keys()

    @property
    def mappings(self) -> Collection[PortMapping]:
        """The ports on which the pods serve."""
        return self._mappings.keys()

    def summary(self) -> str:
        """Return a summary of the endpoints; empty without any slice."""
        if not self._shares:
            return ""
        return f"{count_noun(self.endpoints, 'endpoint')}, {self.ready} ready"

    def objects(self) -> list[dict[str, Any]]:
        """Return the slices, sorted by name, decoded from the received bytes."""
        shares = sorted(self._shares.values(), key=lambda share: share.name)
        return [decode_whole(ENDPOINT_SLICES, share.raw) for share in shares]


class _ContainerPort(TypedDict, total=False):
    name: str | None


class _Container(TypedDict, total=False):
    name: str
    ports: list[_ContainerPort] | None
    restartPolicy: str | None


class _ServicePodSpec(TypedDict, total=False):
    nodeName: str | None
    restartPolicy: str | None
    initContainers: list[_Container] | None
    containers: list[_Container] | None


class ServicePodFields(TypedDict, total=False):
    """The fields of a service's pod that waits read."""

    metadata: ObjectMeta
    spec: _ServicePodSpec | None
    status: PodStatus | None


class ServicePodStore(ObjectCounter):
    """The sink of a service's pods.

    Args:
        detect: returns the terminal state of a pod, None while it may become an endpoint.
        controllers: the controllers of the pods; None if they do not matter.
    """

    def __init__(
        self, detect: TerminalStateCheck, controllers: PodControllers | None = None
    ) -> None:
        super().__init__(self._state)
        self._detect = detect
        self._controllers = controllers

    def _state(self, pod: dict[str, Any], before: TerminalState | None) -> ObjectState:
        if is_finished(pod):
            return ObjectState(phase_label(pod), ("finished",))
        label = phase_label(pod)
        if is_terminating(pod):
            label = "being deleted"
        elif label == "Running" and not is_ready(pod):
            label = "Running, not ready"
        counts = (_ALIVE, *(f"port {name}" for name in sorted(_port_names(pod))))
        if self._controllers is not None:
            counts = (*counts, *self._controllers.classify(pod, met=True))
        return ObjectState(label, counts, terminal_state=self._detect(pod, before))

    @property
    def alive(self) -> int:
        """The number of pods that have not finished."""
        return self.count(_ALIVE)

    def has_port(self, name: str) -> bool:
        """Return whether an unfinished pod has a port of that name."""
        return self.count(f"port {name}") > 0


def _port_names(pod: dict[str, Any]) -> set[str]:
    spec = pod.get("spec") or {}
    sidecars = [
        init_container
        for init_container in spec.get("initContainers") or ()
        if init_container.get("restartPolicy")
    ]
    return {
        port["name"]
        for container in (*(spec.get("containers") or ()), *sidecars)
        for port in container.get("ports") or ()
        if port.get("name")
    }


class _ServicePort(TypedDict, total=False):
    name: str | None
    port: int | None
    targetPort: int | str | None


class _ServiceSpec(TypedDict, total=False):
    type: str | None
    selector: dict[str, str] | None
    ports: list[_ServicePort] | None


class _ServiceFields(TypedDict, total=False):
    metadata: ObjectMeta
    spec: _ServiceSpec | None


def slice_selector(service: str) -> str:
    """Return the label selector of a service's EndpointSlices."""
    return f"kubernetes.io/service-name={service}"


class ServiceEndpoints(ObjectCondition):
    """Base of conditions on a service's endpoints: sources, failures and evidence.

    Args:
        service: its name.
        goal: the awaited state, as a verb.
    """

    needed = 1
    """The minimum number of pods."""
    is_exact = False
    """True for an exact number, which may not be exceeded."""
    detect_pod_failure = staticmethod(detect_unplaced)
    """The check for terminal states of pods: an endpoint requires only a scheduled pod."""

    goal: str

    def __init__(self, namespace: str, service: str, goal: str) -> None:
        super().__init__(SERVICES, namespace, check_namespace(service, "service"), _ServiceFields)
        self.goal = goal
        self.slices = EndpointSliceStore(namespace)
        self.pods = ServicePodStore(self.detect_pod_failure)
        self._controllers = PodControllers(namespace, self._selects)
        self._selector = ""
        self._sources = (
            *self._sources,
            Source(
                ENDPOINT_SLICES,
                namespace,
                self.slices,
                selector=slice_selector(service),
                fields=SliceFields,
            ),
        )

    def sources(self) -> Sequence[Source]:
        """Return the service, its slices, and its pods once the selector is known."""
        selector = ",".join(
            f"{key}={value}"
            for key, value in sorted((self.object.spec.get("selector") or {}).items())
        )
        if selector != self._selector and self.object.current is not None:
            self._selector = selector
            self._sources = self._sources[:2]
            if selector:
                self._controllers = PodControllers(self.namespace, self._selects)
                self.pods = ServicePodStore(self.detect_pod_failure, self._controllers)
                pods = Source(
                    PODS, self.namespace, self.pods, selector=selector, fields=ServicePodFields
                )
                self._sources = (*self._sources, pods)
        if self.is_exact and self._selector and self._missing() is None:
            added = self._controllers.sources()
            if len(added) + 3 != len(self._sources):
                self._sources = (*self._sources[:3], *added)
        return self._sources

    def verdict(self) -> Verdict:
        """Decide by the slices; while they do not match, by whether they still can."""
        absent = self.object.missing_verdict()
        if isinstance(absent, Failed):
            return absent
        missing = self._missing()
        if missing is None:
            return Met(settled=not self.is_exact or self._is_settled())
        text = f"{missing}{self._why()}"
        return self._out_of_reach() or Pending(text, absent=absent is not None)

    def _selects(self, labels: Mapping[str, str]) -> bool:
        return (self.object.spec.get("selector") or {}).items() <= labels.items()

    def _is_settled(self) -> bool:
        """Return whether the controllers of the selected pods want an endpoint for each of them."""
        return self.pods.alive == self.slices.endpoints and self._controllers.is_settled(self.pods)

    def _missing(self) -> str | None:
        """Return a short description of the missing part; None if the slices match."""
        raise AssertionError("said by each condition")

    def _out_of_reach(self) -> Failed | None:
        if not self.needed:
            return None
        if self.object.spec.get("type") == "ExternalName":
            return Failed("the service is of type ExternalName, which has no endpoints", Grace.LONG)
        ending = self.object.ending()
        if ending is not None:
            return ending
        spare = self.pods.alive - self.needed
        return self.pods.terminal_verdict(spare + 1, count_others=False)

    def _why(self) -> str:
        """Return the reason in the service or its pods, for the end of a message."""
        if self.object.current is None:
            return ": there is no service of that name"
        if not self._selector:
            made = "" if len(self.slices) else ", so its EndpointSlices must be created by hand"
            return f": the service has no selector{made}"
        if not self.pods.alive:
            other_text = f" that has not ended: {self.pods.summary()}" if len(self.pods) else ""
            return f": the service's selector {self._selector} matches no pod{other_text}"
        for port in self.object.spec.get("ports") or ():
            target = port.get("targetPort")
            if isinstance(target, str) and not self.pods.has_port(target):
                return f": no pod has a port named {target}, which the service wants"
        return f": {self.pods.summary()}"

    def summarize(self) -> str:
        """Return a summary of the slices and the pods."""
        parts = (self.slices.summary(), self.pods.summary())
        return "; pods: ".join(part for part in parts if part)

    def result(self) -> list[dict[str, Any]]:
        """Return the EndpointSlices, sorted by name."""
        return self.slices.objects()

    def scope(self) -> EvidenceScope:
        """Return the service and the pods that it selects."""
        return EvidenceScope(
            self.namespace,
            objects=(self.object.reference(),),
            pods=self._selector or None,
            suspects=self.pods.suspects(),
        )


class EndpointCount(ServiceEndpoints):
    """A number of endpoints, ready or not.

    Args:
        service: its name.
        count: the exact number.
    """

    is_exact = True

    def __init__(self, namespace: str, service: str, count: int) -> None:
        self.needed = check_count("count", count)
        super().__init__(namespace, service, f"have {count_noun(count, 'endpoint')}")

    def _missing(self) -> str | None:
        if not len(self.slices):
            return "no EndpointSlice yet"
        count = self.slices.endpoints
        if count == self.needed:
            return None
        if count > self.needed:
            return f"{count_noun(count, 'endpoint')}, {count - self.needed} more than awaited"
        return f"{count} of {self.needed} endpoints"

    def _why(self) -> str:
        return "" if self.slices.endpoints > self.needed else super()._why()


class EndpointPods(ServiceEndpoints):
    """Exactly these pods are behind the endpoints.

    Args:
        service: its name.
        pods: their UIDs by name; an empty UID if unknown.
    """

    is_exact = True

    def __init__(self, namespace: str, service: str, pods: Mapping[str, str]) -> None:
        self._wanted = dict(pods)
        self.needed = len(pods)
        names = _shorten_names(pods)
        goal = f"have endpoints at {names} alone" if names else "have no endpoint at a pod"
        super().__init__(namespace, service, goal)

    def follow_names(self) -> None:
        """Let the identity of the service and of the pods be their names."""
        super().follow_names()
        self._wanted = dict.fromkeys(self._wanted, "")

    def _missing(self) -> str | None:
        if not len(self.slices):
            return "no EndpointSlice yet"
        there = self.slices.pods
        names = {name for name, _ in there}
        lacking = [
            name
            for name, uid in self._wanted.items()
            if (name not in names if not uid else (name, uid) not in there)
        ]
        extra = [
            name
            for name, uid in there
            if name not in self._wanted or self._wanted[name] not in ("", uid)
        ]
        return _describe_difference(lacking, extra)


@dataclass(frozen=True, slots=True)
class ExpectedPort:
    """An expected port of a pod.

    Args:
        number: in the pod.
        name: the name of the service's port; None for any.
        protocol: `TCP`, `UDP` or `SCTP`.
    """

    number: int
    name: str | None = None
    protocol: str = "TCP"

    def fits(self, mapping: PortMapping) -> bool:
        """Return whether a port matches, on any pod."""
        return (
            mapping.port == self.number
            and mapping.protocol == self.protocol
            and self.name in (None, mapping.name)
        )

    def __str__(self) -> str:
        name = f"{self.name}:" if self.name else ""
        return f"{name}{self.number}{'' if self.protocol == 'TCP' else '/' + self.protocol}"


class EndpointPorts(ServiceEndpoints):
    """Exactly these ports of pods are behind the endpoints.

    Args:
        service: its name.
        ports: the ports by the pods' names.
    """

    is_exact = True

    def __init__(
        self, namespace: str, service: str, ports: Mapping[str, Sequence[ExpectedPort]]
    ) -> None:
        self._wanted = dict(ports)
        self.needed = len(ports)
        wishes = [
            f"{pod}:{','.join(map(str, expected_ports))}" for pod, expected_ports in ports.items()
        ]
        goal = f"serve at {_shorten_names(wishes)} alone" if wishes else "serve at no pod"
        super().__init__(namespace, service, goal)

    def _missing(self) -> str | None:
        if not len(self.slices):
            return "no EndpointSlice yet"
        mappings = self.slices.mappings
        by_pod: dict[str, list[PortMapping]] = {}
        for mapping in mappings:
            by_pod.setdefault(mapping.pod, []).append(mapping)
        lacking = [
            f"{pod}:{wish}"
            for pod, wishes in self._wanted.items()
            for wish in wishes
            if not any(wish.fits(mapping) for mapping in by_pod.get(pod, ()))
        ]
        extra = [
            f"{mapping.pod}:{ExpectedPort(mapping.port, mapping.name or None, mapping.protocol)}"
            for mapping in mappings
            if not any(wish.fits(mapping) for wish in self._wanted.get(mapping.pod, ()))
        ]
        return _describe_difference(lacking, extra)


class EndpointsOnNode(ServiceEndpoints):
    """At least one endpoint, and all endpoints ready and on one node.

    Args:
        service: its name.
        node: the node's name.
    """

    detect_pod_failure = staticmethod(detect_owned_pod_failure)

    def __init__(self, namespace: str, service: str, node: str) -> None:
        self._node = check_name("node", node)
        super().__init__(namespace, service, f"have its endpoints on node {node}")

    def _missing(self) -> str | None:
        slices = self.slices
        if slices.ready < max(slices.endpoints, 1):
            return f"{slices.ready} of {slices.endpoints} endpoints ready"
        other_nodes = [name or "no node" for name in slices.nodes if name != self._node]
        return f"endpoints on {_shorten_names(sorted(other_nodes))}" if other_nodes else None


def _describe_difference(lacking: Sequence[str], extra: Sequence[str]) -> str | None:
    parts = []
    if lacking:
        parts.append(f"missing {_shorten_names(lacking)}")
    if extra:
        parts.append(f"not awaited {_shorten_names(sorted(extra))}")
    return ", ".join(parts) or None


def _shorten_names(names: Collection[str]) -> str:
    names_text = ", ".join(islice(names, 5))
    return f"{names_text} and {len(names) - 5} more" if len(names) > 5 else names_text


@wait(limit="endpoint_slice", kind=SERVICES, summary="a service with an exact number of endpoints")
def wait_for_endpoint_count(
    client: ApiClient,
    namespace: str,
    name: str,
    count: int,
    **options: Unpack[WaitOptions],
) -> ConditionOf[list[dict[str, Any]]]:
    """Return a service's EndpointSlices once they have exactly `count` addresses.

    Counted as upstream: endpoints need not be ready, a first address counts once even in several
    slices, those of a dual-stack service count for each family, and a count of 0 requires an empty
    EndpointSlice. It replaces WaitForServiceEndpointsNum of earlier releases too.

    Args:
        count: the exact number; 0 or more.

    Raises:
        WaitFailed: the service was deleted, can have no endpoints, or its pods get no node.

    Source: endpointslice/wait.go WaitForEndpointCount.
    """
    return EndpointCount(namespace, name, count)


@wait(
    limit="endpoint_slice",
    kind=SERVICES,
    kinds={"pods": PODS},
    summary="a service with endpoints at exactly these pods",
)
def wait_for_endpoint_pods(
    client: ApiClient,
    namespace: str,
    name: str,
    pods: KubernetesObjects,
    **options: Unpack[WaitOptions],
) -> ConditionOf[list[dict[str, Any]]]:
    """Return a service's EndpointSlices once exactly these pods are behind them.

    The pods need not be ready. Pods given as objects are identified by UID: a recreated pod is
    another one, unless `follow_name` is set.

    Args:
        pods: the pods themselves or their names; empty for slices without any.

    Raises:
        WaitFailed: the service was deleted, can have no endpoints, or its pods get no node.

    Source: endpointslice/wait.go WaitForEndpointPods.
    """
    return EndpointPods(namespace, name, parse_pod_uids(pods, namespace))


@wait(
    limit="endpoint_slice",
    kind=SERVICES,
    summary="a service with endpoints at exactly these ports of pods",
)
def wait_for_endpoint_ports(
    client: ApiClient,
    namespace: str,
    name: str,
    ports: Mapping[str, Sequence[int | str]],
    **options: Unpack[WaitOptions],
) -> ConditionOf[list[dict[str, Any]]]:
    """Return a service's EndpointSlices once they have exactly these ports of these pods.

    The pods need not be ready. It replaces ValidateEndpointsPortsOrFail of earlier releases too.

    Args:
        ports: the ports by the names of the pods. A port is a number in the pod, or a text with the
            optional name of the service's port in front and an optional protocol at the end:
            `8080`, `"http:8080"`, `"dns:53/UDP"`. The default protocol is TCP, the default name
            any.

    Raises:
        WaitFailed: the service was deleted, can have no endpoints, or its pods get no node.

    Source: endpointslice/wait.go WaitForEndpointPorts.
    """
    value: object = ports
    if not isinstance(value, Mapping):
        raise InvalidArgument("ports", value, "use a mapping of pods to lists of ports")
    expected_ports = {
        check_name("ports", pod): _parse_ports(pod_ports) for pod, pod_ports in value.items()
    }
    return EndpointPorts(namespace, name, expected_ports)


@wait(
    limit="kube_proxy_lag",
    kind=SERVICES,
    kinds={"node": NODES},
    summary="a service with ready endpoints on one node",
)
def wait_for_endpoint_on_node(
    client: ApiClient, namespace: str, name: str, node: str, **options: Unpack[WaitOptions]
) -> ConditionOf[list[dict[str, Any]]]:
    """Return a service's EndpointSlices once its endpoints are ready and all on one node.

    Upstream checks only the first endpoint of the first slice.

    Args:
        node: the node's name.

    Raises:
        WaitFailed: the service was deleted, can have no endpoints, or its pods are stuck.

    Source: service/jig.go WaitForEndpointOnNode.
    """
    return EndpointsOnNode(namespace, name, node)


@wait(
    limit="endpoint_slice",
    kind=SERVICES,
    summary="a service whose EndpointSlices a callable accepts",
)
def wait_for_endpoint_slices(
    client: ApiClient,
    namespace: str,
    name: str,
    condition: Callable[[list[dict[str, Any]]], Any],
    **options: Unpack[WaitOptions],
) -> ConditionOf[list[dict[str, Any]]]:
    """Return a service's EndpointSlices once a callable accepts them.

    An exception of the callable ends the wait at once, unless a field is not there yet.

    Args:
        condition: receives the slices sorted by name, and returns a bool or a verdict.

    Raises:
        InvalidArgument: an argument is invalid, or the callable returned something else.
        WaitFailed: the callable returned `Failed`.

    Source: endpointslice/wait.go WaitForEndpointSlices.
    """
    check_namespace(namespace)
    selector = slice_selector(check_namespace(name, "service"))
    value: object = condition
    if not callable(value):
        raise InvalidArgument("condition", value, "use a callable that is given the list of slices")
    return ListCondition(ENDPOINT_SLICES, namespace, selector, UserPredicate(condition))


def _parse_ports(ports: object) -> list[ExpectedPort]:
    if isinstance(ports, str) or not isinstance(ports, Sequence) or not ports:
        raise InvalidArgument("ports", ports, "use a list of ports for each pod")
    return [_parse_port(port) for port in ports]


def _parse_port(port: object) -> ExpectedPort:
    match = None if isinstance(port, bool) else _EXPECTED_PORT.fullmatch(str(port))
    if not isinstance(port, int | str) or match is None or not 0 < int(match[2]) < 65536:
        raise InvalidArgument(
            "ports",
            port,
            "use a number from 1 to 65535, or a text like 'http:8080' or 'dns:53/UDP'",
        )
    return ExpectedPort(int(match[2]), match[1], match[3] or "TCP")
