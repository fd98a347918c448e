"""The waits on services and their endpoints, as rows of the catalogue: data alone.

A row is name, arguments after client and namespace, summary, module, limit. The condition is made
by the function of the same module that has the wait's name without `wait_for_`.
"""

from __future__ import annotations

__all__ = ["SERVICE_WAITS"]

SERVICE_WAITS = (
    (
        "wait_for_endpoint_count",
        "service, expected_count",
        "a service with an exact number of endpoints",
        "endpoints",
        "endpoint_slice",
    ),
    (
        "wait_for_endpoint_pods",
        "service, pods",
        "a service with endpoints at exactly these pods",
        "endpoints",
        "endpoint_slice",
    ),
    (
        "wait_for_endpoint_ports",
        "service, ports",
        "a service with endpoints at exactly these ports of pods",
        "endpoints",
        "endpoint_slice",
    ),
    (
        "wait_for_endpoint_on_node",
        "service, node",
        "a service with ready endpoints on one node",
        "endpoints",
        "kube_proxy_lag",
    ),
    (
        "wait_for_endpoint_slices",
        "service, condition",
        "a service of whose EndpointSlices a callable says that they are as awaited",
        "endpoints",
        "endpoint_slice",
    ),
    (
        "wait_for_service_reachable",
        "service, port=None, path='', scheme='http'",
        "a service behind which a pod answers anything",
        "service_answers",
        "service_reachability",
    ),
    (
        "wait_for_service_responding",
        "service, port=None, path='', scheme='http'",
        "a service that answers with success",
        "service_answers",
        "service_responding",
    ),
    (
        "wait_for_service",
        "service, exist=True",
        "a service that is there, or gone",
        "services",
        "service_start",
    ),
    (
        "wait_for_load_balancer",
        "service",
        "a service whose load balancer has an address",
        "services",
        "load_balancer_create",
    ),
    (
        "wait_for_new_ingress_ip",
        "service, existing_ip",
        "a service whose load balancer has another address",
        "services",
        "load_balancer_create",
    ),
    (
        "wait_for_load_balancer_destroy",
        "service",
        "a service without load balancer",
        "services",
        "load_balancer_cleanup",
    ),
    (
        "wait_for_service_updated_with_finalizer",
        "service, has_finalizer=True",
        "a service with the load balancer's finalizer, or without",
        "services",
        "load_balancer_create",
    ),
    (
        "wait_for_service_deleted_with_finalizer",
        "service, uid=None",
        "a service that is gone, by its UID",
        "services",
        "load_balancer_create",
    ),
)
"""Rows of the catalogue."""
