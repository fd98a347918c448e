"""Waits on the endpoints of a service, by its EndpointSlices.

Source: kubernetes/test/e2e/framework/endpointslice/wait.go and service/jig.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack, cast

from pytest_kwait.apimachinery.validation import check_name, check_namespace
from pytest_kwait.client.resource import ENDPOINT_SLICES
from pytest_kwait.client.session import Session
from pytest_kwait.engine.options import WaitOptions, resolve_options
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.endpoints.conditions import (
    EndpointCount,
    EndpointPods,
    EndpointPorts,
    EndpointsOnNode,
    ExpectedPort,
    slice_selector,
)
from pytest_kwait.framework.node.minions import parse_pod_uids
from pytest_kwait.framework.objects.lists import ListCondition
from pytest_kwait.framework.predicates import UserPredicate

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubernetes.client import ApiClient

    from pytest_kwait.engine.condition import Condition

__all__ = [
    "endpoint_count",
    "endpoint_on_node",
    "endpoint_pods",
    "endpoint_ports",
    "endpoint_slices",
    "wait_for_endpoint_count",
    "wait_for_endpoint_on_node",
    "wait_for_endpoint_pods",
    "wait_for_endpoint_ports",
    "wait_for_endpoint_slices",
]


def endpoint_count(namespace: str, service: str, expected_count: int) -> EndpointCount:
    """Return the condition of `wait_for_endpoint_count`."""
    return EndpointCount(namespace, service, expected_count)


def wait_for_endpoint_count(
    client: ApiClient,
    namespace: str,
    service: str,
    expected_count: int,
    **options: Unpack[WaitOptions],
) -> list[dict[str, Any]]:
    """Return a service's EndpointSlices once they have exactly `expected_count` addresses.

    As upstream counts: an endpoint need not be ready, its first address counts once in however
    many slices it is, those of a dual-stack service count for each family, and a count of 0 takes
    an EndpointSlice that is there and empty. For earlier releases' WaitForServiceEndpointsNum too.

    Args:
        client: the official client.
        namespace: where the service is.
        service: its name.
        expected_count: how many, exactly; 0 or more.
        **options: `timeout` (default: `endpoint_slice`, 2 minutes) and the other options of every
            wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: the service was deleted, can have no endpoints, or its
            pods get no node.
        WaitTimeout: it did not come within the limit.

    Source: endpointslice/wait.go WaitForEndpointCount.
    """
    awaited = endpoint_count(namespace, service, expected_count)
    return cast("list[dict[str, Any]]", _wait(client, awaited, options, "endpoint_slice"))


def endpoint_pods(
    namespace: str, service: str, pods: Sequence[dict[str, Any] | str]
) -> EndpointPods:
    """Return the condition of `wait_for_endpoint_pods`."""
    given: object = pods
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise InvalidArgument("pods", given, "use a list of pods, or of their names")
    return EndpointPods(namespace, service, parse_pod_uids(pods))


def wait_for_endpoint_pods(
    client: ApiClient,
    namespace: str,
    service: str,
    pods: Sequence[dict[str, Any] | str],
    **options: Unpack[WaitOptions],
) -> list[dict[str, Any]]:
    """Return a service's EndpointSlices once exactly these pods are behind them.

    The pods need not be ready. Given as objects they are known by their UIDs: one that was created
    anew is another one.

    Args:
        client: the official client.
        namespace: where the service and its pods are.
        service: its name.
        pods: the pods themselves or their names; empty for slices without any.
        **options: `timeout` (default: `endpoint_slice`, 2 minutes) and the other options of every
            wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: the service was deleted, can have no endpoints, or its
            pods get no node.
        WaitTimeout: it did not come within the limit.

    Source: endpointslice/wait.go WaitForEndpointPods.
    """
    awaited = endpoint_pods(namespace, service, pods)
    return cast("list[dict[str, Any]]", _wait(client, awaited, options, "endpoint_slice"))


def endpoint_ports(
    namespace: str, service: str, ports: Mapping[str, Sequence[int | str]]
) -> EndpointPorts:
    """Return the condition of `wait_for_endpoint_ports`."""
    given: object = ports
    if not isinstance(given, Mapping):
        raise InvalidArgument("ports", given, "use a mapping of pods to lists of ports")
    wanted = {check_name("ports", pod): _parse_ports(each) for pod, each in given.items()}
    return EndpointPorts(namespace, service, wanted)


def wait_for_endpoint_ports(
    client: ApiClient,
    namespace: str,
    service: str,
    ports: Mapping[str, Sequence[int | str]],
    **options: Unpack[WaitOptions],
) -> list[dict[str, Any]]:
    """Return a service's EndpointSlices once they lead to exactly these ports of these pods.

    The pods need not be ready. For earlier releases' ValidateEndpointsPortsOrFail too.

    Args:
        client: the official client.
        namespace: where the service and its pods are.
        service: its name.
        ports: the ports by the names of the pods; a port is the number in the pod, or a text with
            the name of the service's port before it and the protocol behind it, both of which may
            be left out: `8080`, `"http:8080"`, `"dns:53/UDP"`. Without a protocol TCP is meant,
            without a name any.
        **options: `timeout` (default: `endpoint_slice`, 2 minutes) and the other options of every
            wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: the service was deleted, can have no endpoints, or its
            pods get no node.
        WaitTimeout: it did not come within the limit.

    Source: endpointslice/wait.go WaitForEndpointPorts.
    """
    awaited = endpoint_ports(namespace, service, ports)
    return cast("list[dict[str, Any]]", _wait(client, awaited, options, "endpoint_slice"))


def endpoint_on_node(namespace: str, service: str, node: str) -> EndpointsOnNode:
    """Return the condition of `wait_for_endpoint_on_node`."""
    return EndpointsOnNode(namespace, service, node)


def wait_for_endpoint_on_node(
    client: ApiClient, namespace: str, service: str, node: str, **options: Unpack[WaitOptions]
) -> list[dict[str, Any]]:
    """Return a service's EndpointSlices once its endpoints are ready and all on one node.

    Upstream looks at the first endpoint of the first slice alone.

    Args:
        client: the official client.
        namespace: where the service is.
        service: its name.
        node: the node's name.
        **options: `timeout` (default: `kube_proxy_lag`, 2 minutes) and the other options of every
            wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: the service was deleted, can have no endpoints, or its
            pods are stuck.
        WaitTimeout: it did not come within the limit.

    Source: service/jig.go WaitForEndpointOnNode.
    """
    awaited = endpoint_on_node(namespace, service, node)
    return cast("list[dict[str, Any]]", _wait(client, awaited, options, "kube_proxy_lag"))


def endpoint_slices(namespace: str, service: str, condition: Callable[[Any], Any]) -> ListCondition:
    """Return the condition of `wait_for_endpoint_slices`."""
    check_namespace(namespace)
    selector = slice_selector(check_namespace(service, "service"))
    given: object = condition
    if not callable(given):
        raise InvalidArgument("condition", given, "use a callable that is given the list of slices")
    return ListCondition(ENDPOINT_SLICES, namespace, selector, UserPredicate(condition))


def wait_for_endpoint_slices(
    client: ApiClient,
    namespace: str,
    service: str,
    condition: Callable[[list[dict[str, Any]]], Any],
    **options: Unpack[WaitOptions],
) -> list[dict[str, Any]]:
    """Return a service's EndpointSlices once a callable says that they are as awaited.

    What the callable raises ends the wait at once.

    Args:
        client: the official client.
        namespace: where the service is.
        service: its name.
        condition: is given the slices sorted by name, and returns a bool or a verdict.
        **options: `timeout` (default: `endpoint_slice`, 2 minutes) and the other options of every
            wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant, or another answer of the callable.
        WaitFailed: the callable says so.
        WaitTimeout: it did not come within the limit.

    Source: endpointslice/wait.go WaitForEndpointSlices.
    """
    awaited = endpoint_slices(namespace, service, condition)
    return cast("list[dict[str, Any]]", _wait(client, awaited, options, "endpoint_slice"))


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


def _wait(client: ApiClient, condition: Condition, options: WaitOptions, timeout: str) -> Any:
    settings = resolve_options(options, timeout=timeout)
    return wait_for_condition(Session.of(client), condition, settings)
