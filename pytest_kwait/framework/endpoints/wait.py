"""Waits on the endpoints of a service, by its EndpointSlices.

Source: kubernetes/test/e2e/framework/endpointslice/wait.go and service/jig.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from pytest_kwait.apimachinery.validation import check_name, check_namespace
from pytest_kwait.client.resource import ENDPOINT_SLICES
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.endpoints.conditions import (
    EndpointCount,
    EndpointPods,
    EndpointPorts,
    EndpointsOnNode,
    ExpectedPort,
    slice_selector,
)
from pytest_kwait.framework.objects.lists import ListCondition
from pytest_kwait.framework.pod.placement import parse_pod_uids
from pytest_kwait.framework.predicates import UserPredicate
from pytest_kwait.framework.registry import wait

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubernetes.client import ApiClient

    from pytest_kwait.engine.options import WaitOptions
    from pytest_kwait.framework.registry import ConditionOf

__all__ = [
    "wait_for_endpoint_count",
    "wait_for_endpoint_on_node",
    "wait_for_endpoint_pods",
    "wait_for_endpoint_ports",
    "wait_for_endpoint_slices",
]


@wait(limit="endpoint_slice", summary="a service with an exact number of endpoints")
def wait_for_endpoint_count(
    client: ApiClient,
    namespace: str,
    service: str,
    expected_count: int,
    **options: Unpack[WaitOptions],
) -> ConditionOf[list[dict[str, Any]]]:
    """Return a service's EndpointSlices once they have exactly `expected_count` addresses.

    Counted as upstream: endpoints need not be ready, a first address counts once even in several
    slices, those of a dual-stack service count for each family, and a count of 0 requires an empty
    EndpointSlice. It replaces WaitForServiceEndpointsNum of earlier releases too.

    Args:
        expected_count: the exact number; 0 or more.

    Raises:
        WaitFailed: the service was deleted, can have no endpoints, or its pods get no node.

    Source: endpointslice/wait.go WaitForEndpointCount.
    """
    return EndpointCount(namespace, service, expected_count)


@wait(limit="endpoint_slice", summary="a service with endpoints at exactly these pods")
def wait_for_endpoint_pods(
    client: ApiClient,
    namespace: str,
    service: str,
    pods: Sequence[dict[str, Any] | str],
    **options: Unpack[WaitOptions],
) -> ConditionOf[list[dict[str, Any]]]:
    """Return a service's EndpointSlices once exactly these pods are behind them.

    The pods need not be ready. Pods given as objects are identified by UID: a recreated pod is
    another one.

    Args:
        pods: the pods themselves or their names; empty for slices without any.

    Raises:
        WaitFailed: the service was deleted, can have no endpoints, or its pods get no node.

    Source: endpointslice/wait.go WaitForEndpointPods.
    """
    given: object = pods
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise InvalidArgument("pods", given, "use a list of pods, or of their names")
    return EndpointPods(namespace, service, parse_pod_uids(pods))


@wait(limit="endpoint_slice", summary="a service with endpoints at exactly these ports of pods")
def wait_for_endpoint_ports(
    client: ApiClient,
    namespace: str,
    service: str,
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
    given: object = ports
    if not isinstance(given, Mapping):
        raise InvalidArgument("ports", given, "use a mapping of pods to lists of ports")
    wanted = {check_name("ports", pod): _parse_ports(each) for pod, each in given.items()}
    return EndpointPorts(namespace, service, wanted)


@wait(limit="kube_proxy_lag", summary="a service with ready endpoints on one node")
def wait_for_endpoint_on_node(
    client: ApiClient, namespace: str, service: str, node: str, **options: Unpack[WaitOptions]
) -> ConditionOf[list[dict[str, Any]]]:
    """Return a service's EndpointSlices once its endpoints are ready and all on one node.

    Upstream checks only the first endpoint of the first slice.

    Args:
        node: the node's name.

    Raises:
        WaitFailed: the service was deleted, can have no endpoints, or its pods are stuck.

    Source: service/jig.go WaitForEndpointOnNode.
    """
    return EndpointsOnNode(namespace, service, node)


@wait(
    limit="endpoint_slice",
    summary="a service of whose EndpointSlices a callable says that they are as awaited",
)
def wait_for_endpoint_slices(
    client: ApiClient,
    namespace: str,
    service: str,
    condition: Callable[[list[dict[str, Any]]], Any],
    **options: Unpack[WaitOptions],
) -> ConditionOf[list[dict[str, Any]]]:
    """Return a service's EndpointSlices once a callable accepts them.

    An exception of the callable ends the wait at once.

    Args:
        condition: receives the slices sorted by name, and returns a bool or a verdict.

    Raises:
        InvalidArgument: an argument is invalid, or the callable returned something else.
        WaitFailed: the callable returned `Failed`.

    Source: endpointslice/wait.go WaitForEndpointSlices.
    """
    check_namespace(namespace)
    selector = slice_selector(check_namespace(service, "service"))
    given: object = condition
    if not callable(given):
        raise InvalidArgument("condition", given, "use a callable that is given the list of slices")
    return ListCondition(ENDPOINT_SLICES, namespace, selector, UserPredicate(condition))


_EXPECTED_PORT = re.compile(r"(?:([a-z0-9-]{1,63}):)?(\d{1,5})(?:/(TCP|UDP|SCTP))?")


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
