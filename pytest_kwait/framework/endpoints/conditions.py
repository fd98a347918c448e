"""What can be awaited of a service's endpoints.

The EndpointSlices decide. The Service and the pods that it selects are looked at as well, to say
why endpoints are missing and when they can no longer come.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypedDict

from pytest_kwait.client.resource import ENDPOINT_SLICES, PODS, SERVICES
from pytest_kwait.client.responses import ObjectMeta
from pytest_kwait.engine.condition import EvidenceScope, Source
from pytest_kwait.engine.options import check_count, check_name, check_namespace
from pytest_kwait.engine.single_object import SingleObject
from pytest_kwait.engine.verdicts import Failed, Met, Patience, Pending, Verdict
from pytest_kwait.framework.endpoints.endpoint_slices import EndpointSliceStore, SliceFields
from pytest_kwait.framework.endpoints.service_pods import ServicePodFields, ServicePods
from pytest_kwait.framework.pod.list_conditions import detect_unplaced
from pytest_kwait.framework.terminal_states.pods import detect_owned_pod_failure

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pytest_kwait.framework.endpoints.endpoint_slices import PortMapping

__all__ = [
    "EndpointCount",
    "EndpointPods",
    "EndpointPorts",
    "EndpointsOnNode",
    "ExpectedPort",
    "ServiceEndpoints",
    "slice_selector",
]


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
    """Return which EndpointSlices are those of a service."""
    return f"kubernetes.io/service-name={service}"


class ServiceEndpoints:
    """What conditions on a service's endpoints share: where to look, and what may be wrong.

    Args:
        namespace: where the service is.
        service: its name.
        goal: what is awaited, as a verb.

    Raises:
        InvalidArgument: a name that cannot be one.
    """

    runs_user_code = False
    needed = 1
    """How many pods it takes at least."""
    pod_doom = staticmethod(detect_unplaced)
    """Why a pod will not become what is awaited: to be an endpoint it takes no more than a node."""

    def __init__(self, namespace: str, service: str, goal: str) -> None:
        self.namespace = check_namespace(namespace)
        self.service = SingleObject(SERVICES, check_namespace(service, "service"))
        self.goal = goal
        self.slices = EndpointSliceStore(namespace)
        self.pods = ServicePods(self.pod_doom)
        self._selector = ""
        self._sources: tuple[Source, ...] = (
            Source(SERVICES, namespace, self.service, service, fields=_ServiceFields),
            Source(
                ENDPOINT_SLICES,
                namespace,
                self.slices,
                selector=slice_selector(service),
                fields=SliceFields,
            ),
        )

    @property
    def subject(self) -> str:
        """The service."""
        return f"service {self.namespace}/{self.service.name}"

    def sources(self) -> Sequence[Source]:
        """Return the service, its slices, and the pods that it selects once that is known."""
        selector = ",".join(
            f"{key}={value}"
            for key, value in sorted((self.service.spec.get("selector") or {}).items())
        )
        if selector != self._selector and self.service.current is not None:
            self._selector = selector
            self._sources = self._sources[:2]
            if selector:
                self.pods = ServicePods(self.pod_doom)
                pods = Source(
                    PODS, self.namespace, self.pods, selector=selector, fields=ServicePodFields
                )
                self._sources = (*self._sources, pods)
        return self._sources

    def verdict(self) -> Verdict:
        """Judge by the slices; where they are not as awaited, by what may still become of them."""
        absent = self.service.missing_verdict()
        if isinstance(absent, Failed):
            return absent
        missing = self._missing()
        if missing is None:
            return Met()
        return self._out_of_reach() or Pending(f"{missing}{self._why()}")

    def _missing(self) -> str | None:
        """Return what is missing, in a few words; None where nothing is."""
        raise AssertionError("said by each condition")

    def _out_of_reach(self) -> Failed | None:
        if not self.needed:
            return None
        if self.service.spec.get("type") == "ExternalName":
            return Failed(
                "the service is of type ExternalName, which has no endpoints", Patience.LONG
            )
        ending = self.service.ending()
        if ending is not None:
            return ending
        spare = self.pods.alive - self.needed
        stuck = self.pods.nth_terminal(spare + 1) if spare >= 0 else None
        if stuck is None or stuck[0].state.doom is None:
            return None
        entry, patience, since = stuck
        return Failed(f"pod {entry.name}: {stuck[0].state.doom.reason}", patience, since)

    def _why(self) -> str:
        """Return what is wrong with the service or its pods, as it stands at the end."""
        if self.service.current is None:
            return ": there is no service of that name"
        if not self._selector:
            made = "" if len(self.slices) else ", and nobody has made an EndpointSlice for it"
            return f": the service has no selector{made}"
        if not self.pods.alive:
            others = f" that has not ended: {self.pods.summary()}" if len(self.pods) else ""
            return f": the service's selector {self._selector} matches no pod{others}"
        for port in self.service.spec.get("ports") or ():
            target = port.get("targetPort")
            if isinstance(target, str) and not self.pods.has_port(target):
                return f": no pod has a port named {target}, which the service wants"
        return f": {self.pods.summary()}"

    def seen(self) -> str:
        """Sum up the slices and the pods."""
        parts = (self.slices.summary(), self.pods.summary())
        return "; pods: ".join(part for part in parts if part)

    def result(self) -> list[dict[str, Any]]:
        """Return the EndpointSlices, sorted by name."""
        return self.slices.objects()

    def scope(self) -> EvidenceScope:
        """Return the service and the pods that it selects."""
        return EvidenceScope(
            self.namespace,
            objects=(self.service.reference(),),
            pods=self._selector or None,
            suspects=self.pods.suspects(),
        )


class EndpointCount(ServiceEndpoints):
    """A number of endpoints, whether they are ready or not.

    Args:
        namespace: where the service is.
        service: its name.
        expected_count: how many, exactly.
    """

    def __init__(self, namespace: str, service: str, expected_count: int) -> None:
        self.needed = check_count("expected_count", expected_count)
        noun = "endpoint" if expected_count == 1 else "endpoints"
        super().__init__(namespace, service, f"have {expected_count} {noun}")

    def _missing(self) -> str | None:
        if not len(self.slices):
            return "no EndpointSlice yet"
        count = self.slices.endpoints
        if count == self.needed:
            return None
        noun = "endpoint" if count == 1 else "endpoints"
        if count > self.needed:
            return f"{count} {noun}, {count - self.needed} more than awaited"
        return f"{count} of {self.needed} endpoints"

    def _why(self) -> str:
        return "" if self.slices.endpoints > self.needed else super()._why()


class EndpointPods(ServiceEndpoints):
    """The pods behind the endpoints, all of them and no other.

    Args:
        namespace: where the service is.
        service: its name.
        pods: their UIDs by name; an empty one where it is not known.
    """

    def __init__(self, namespace: str, service: str, pods: Mapping[str, str]) -> None:
        self._wanted = dict(pods)
        self.needed = len(pods)
        names = _shorten_names(pods)
        goal = f"have endpoints at {names} alone" if names else "have no endpoint at a pod"
        super().__init__(namespace, service, goal)

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
    """A port that a pod is to serve at.

    Args:
        number: in the pod.
        name: the name of the service's port; None for any.
        protocol: `TCP`, `UDP` or `SCTP`.
    """

    number: int
    name: str | None = None
    protocol: str = "TCP"

    def fits(self, mapping: PortMapping) -> bool:
        """Whether a port is the one that is wished for, on whatever pod."""
        return (
            mapping.port == self.number
            and mapping.protocol == self.protocol
            and self.name in (None, mapping.name)
        )

    def __str__(self) -> str:
        name = f"{self.name}:" if self.name else ""
        return f"{name}{self.number}{'' if self.protocol == 'TCP' else '/' + self.protocol}"


class EndpointPorts(ServiceEndpoints):
    """The ports of the pods behind the endpoints, all of them and no other.

    Args:
        namespace: where the service is.
        service: its name.
        ports: the ports by the pods' names.
    """

    def __init__(
        self, namespace: str, service: str, ports: Mapping[str, Sequence[ExpectedPort]]
    ) -> None:
        self._wanted = dict(ports)
        self.needed = len(ports)
        wishes = [f"{pod}:{','.join(map(str, each))}" for pod, each in ports.items()]
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
            f"{each.pod}:{ExpectedPort(each.port, each.name or None, each.protocol)}"
            for each in mappings
            if not any(wish.fits(each) for wish in self._wanted.get(each.pod, ()))
        ]
        return _describe_difference(lacking, extra)


class EndpointsOnNode(ServiceEndpoints):
    """Endpoints that are all ready and all on one node, and at least one of them.

    Args:
        namespace: where the service is.
        service: its name.
        node: the node's name.
    """

    pod_doom = staticmethod(detect_owned_pod_failure)

    def __init__(self, namespace: str, service: str, node: str) -> None:
        self._node = check_name("node", node)
        super().__init__(namespace, service, f"have its endpoints on node {node}")

    def _missing(self) -> str | None:
        slices = self.slices
        if slices.ready < max(slices.endpoints, 1):
            return f"{slices.ready} of {slices.endpoints} endpoints ready"
        others = [name or "no node" for name in slices.nodes if name != self._node]
        return f"endpoints on {_shorten_names(sorted(others))}" if others else None


def _describe_difference(lacking: Sequence[str], extra: Sequence[str]) -> str | None:
    parts = []
    if lacking:
        parts.append(f"missing {_shorten_names(lacking)}")
    if extra:
        parts.append(f"not awaited {_shorten_names(sorted(extra))}")
    return ", ".join(parts) or None


def _shorten_names(names: Collection[str]) -> str:
    shown = ", ".join(islice(names, 5))
    return f"{shown} and {len(names) - 5} more" if len(names) > 5 else shown
