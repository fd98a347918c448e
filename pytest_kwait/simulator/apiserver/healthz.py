"""Health checks: `/healthz`, `/livez` and `/readyz`.

They pass as long as the server answers.

Source: k8s.io/apiserver pkg/server/healthz/healthz.go; k8s.io/kubernetes pkg/controlplane.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.apiserver.responses import text_response

if TYPE_CHECKING:
    from aiohttp import web

    from pytest_kwait.simulator.apiserver.request import ApiRequest

_FIRST_HOOKS = (
    "start-apiserver-admission-initializer",
    "generic-apiserver-start-informers",
    "priority-and-fairness-config-consumer",
    "priority-and-fairness-filter",
    "storage-object-count-tracker-hook",
    "start-apiextensions-informers",
    "start-apiextensions-controllers",
    "crd-informer-synced",
    "start-system-namespaces-controller",
    "peer-endpoint-reconciler-controller",
    "start-cluster-authentication-info-controller",
    "start-kube-apiserver-identity-lease-controller",
    "start-kube-apiserver-identity-lease-garbage-collector",
    "storage-readiness",
    "start-legacy-token-tracking-controller",
    "start-service-ip-repair-controllers",
    "rbac/bootstrap-roles",
    "scheduling/bootstrap-system-priority-classes",
    "priority-and-fairness-config-producer",
    "bootstrap-controller",
    "start-kubernetes-service-cidr-controller",
    "start-kube-aggregator-informers",
    "apiservice-status-local-available-controller",
    "apiservice-status-remote-available-controller",
    "apiservice-registration-controller",
    "apiservice-discovery-controller",
    "kube-apiserver-autoregistration",
)
_LAST_HOOKS = ("apiservice-openapi-controller", "apiservice-openapiv3-controller")
_HOOKS = (
    *(f"poststarthook/{name}" for name in _FIRST_HOOKS),
    "autoregister-completion",
    *(f"poststarthook/{name}" for name in _LAST_HOOKS),
)
_LIVENESS_CHECKS = ("ping", "log", "loopback-serving-certificate", "etcd", *_HOOKS)

HEALTH_CHECKS: dict[str, tuple[str, ...]] = {
    "healthz": _LIVENESS_CHECKS,
    "livez": _LIVENESS_CHECKS,
    "readyz": ("ping", "log", "etcd", "etcd-readiness", "informer-sync", *_HOOKS, "shutdown"),
}
"""The checks of each path, in the order of the verbose output."""


def serve_healthz(request: ApiRequest) -> web.Response | None:
    """Serve a health path; None for any other path."""
    group, _, name = request.path.removeprefix("/").partition("/")
    checks = HEALTH_CHECKS.get(group)
    if checks is None:
        return None
    if name:
        return text_response("ok", nosniff=False) if name in checks else None
    if request.path.endswith("/"):
        return None
    if "verbose" not in request.query:
        return text_response("ok")
    excluded = {value for key, value in request.queries if key == "exclude"}
    lines = [f"[+]{check}{' excluded:' if check in excluded else ''} ok" for check in checks]
    unknown = ",".join(f'"{check}"' for check in sorted(excluded - set(checks)))
    if unknown:
        lines.append(f"warn: some health checks cannot be excluded: no matches for {unknown}")
    lines.append(f"{group} check passed")
    return text_response("\n".join(lines) + "\n")
