"""The waits on the cluster itself and on its extensions, as rows of the catalogue: data alone.

A row is name, arguments after client (and namespace, for those that have one), summary, module,
limit. The condition is made by the function of the same module that has the wait's name without
`wait_for_`.
"""

from __future__ import annotations

__all__ = ["CLUSTER_WAITS", "NAMESPACE_WAITS"]

CLUSTER_WAITS = (
    (
        "wait_for_namespaces_deleted",
        "namespaces",
        "namespaces that are gone, by their UIDs",
        "namespaces",
        "namespace_deletion",
    ),
    (
        "wait_for_api_server_healthy",
        "",
        "an API server that says it is ready",
        "api_server",
        "api_server",
    ),
    (
        "wait_for_authz_update",
        "user, attributes, allowed=True, *, groups=()",
        "a user who is allowed something, by resource attributes, or is not",
        "authorization",
        "authorization",
    ),
    (
        "wait_for_crd_established",
        "crd",
        "a definition that is established, and whose versions are served",
        "definitions",
        "crd",
    ),
    (
        "wait_for_api_service_available",
        "api_service",
        "an APIService that is available",
        "api_services",
        "api_service",
    ),
)
"""Rows of the catalogue."""

NAMESPACE_WAITS = (
    (
        "wait_for_default_service_account",
        "",
        "the namespace's ServiceAccount `default`",
        "namespaces",
        "service_account_provision",
    ),
    (
        "wait_for_kube_root_ca",
        "",
        "the namespace's config map with the cluster's root CA",
        "namespaces",
        "service_account_provision",
    ),
    (
        "wait_for_event",
        "reason=None, message=None, *, about=None, type=None",
        "an event with a reason, with words in its message, about an object",
        "events",
        "pod_event",
    ),
    (
        "wait_for_authorization_update",
        "user, verb, resource, allowed=True, *, groups=(), all_namespaces=False",
        "a user who may do something with a kind, or may not",
        "authorization",
        "authorization",
    ),
    (
        "wait_for_named_authorization_update",
        "user, verb, resource, name, allowed=True, *, groups=()",
        "a user who may do something with one object, or may not",
        "authorization",
        "authorization",
    ),
    (
        "wait_for_webhook_ready",
        "webhook, probe=None, *, denial=None, mutation=None",
        "admission webhooks that answer, shown by a dry run",
        "webhooks",
        "webhook",
    ),
    (
        "wait_for_hpa_replicas",
        "hpa, min_replicas, max_replicas=None",
        "an autoscaler whose replicas lie in a range",
        "autoscalers",
        "autoscaling",
    ),
)
"""Rows of the catalogue."""
