"""Network policies, and what pods reach under them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from e2e.objects import container, pod, service
from pytest_kwait import wait

if TYPE_CHECKING:
    from pytest_kwait import Kwait

SHELL = "shell"
"""The name of the interpreted pod that connects."""

DNS = {
    "to": [
        {
            "namespaceSelector": {},
            "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
        }
    ],
    "ports": [{"port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")],
}
"""A rule of egress to the cluster's DNS server."""

_HTTPD = "hostname > /index.html; httpd -f -p 8080 -h /"
_SECONDS = 1
"""A connection that is allowed is made within milliseconds."""


def policy(name: str, app: str, **rules: Any) -> dict[str, Any]:
    """Return a policy for the pods of an app; its types follow from its rules."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name},
        "spec": {
            "podSelector": {"matchLabels": {"app": app}},
            "policyTypes": [kind for kind in ("Ingress", "Egress") if kind.lower() in rules],
            **rules,
        },
    }


def pods(**labels: str) -> dict[str, Any]:
    """Return a peer: the pods of the namespace with labels."""
    return {"podSelector": {"matchLabels": labels}}


def page_pod() -> dict[str, Any]:
    """Return the interpreted pod that serves a page."""
    return pod("page", container(script=_HTTPD), labels={"app": "page"})


def shell_pod() -> dict[str, Any]:
    """Return the interpreted pod that connects."""
    return pod(SHELL, container(), labels={"app": SHELL})


def serve(kwait: Kwait, *more: dict[str, Any], servers: tuple[str, ...]) -> dict[str, str]:
    """Create pods and the services of servers; return the addresses of both by name."""
    made = [page_pod(), shell_pod(), *more]
    kwait.create(*made, *map(service, servers))
    for one in made:
        kwait.wait_for_pod_ready(one["metadata"]["name"])
    found = {}
    for name in servers:
        kwait.wait_for_endpoint_count(name, 1)
        found[name] = kwait.get(f"pod/{name}")["status"]["podIP"] + ":8080"
        found[f"service {name}"] = kwait.get(f"service/{name}")["spec"]["clusterIP"] + ":80"
    return found


def can_reach(kwait: Kwait, client: str, place: str) -> bool:
    """Return whether a pod gets an answer from an address and port."""
    if client == SHELL:
        return kwait.exec(client, "wget", "-T", str(_SECONDS), "-q", "-O-", place).exit_code == 0
    code = f"import urllib.request\nurllib.request.urlopen('http://{place}/', timeout={_SECONDS})"
    return kwait.exec(client, sys.executable, "-c", code).exit_code == 0


def assert_reached(
    kwait: Kwait, client: str, addresses: dict[str, str], expected: set[str]
) -> None:
    """Wait until a pod reaches the expected addresses and no others."""
    seen: set[str] = set()

    def is_as_expected() -> bool:
        seen.clear()
        seen.update(name for name, place in addresses.items() if can_reach(kwait, client, place))
        return seen == expected

    try:
        wait.poll_immediate(0.1, 60, is_as_expected)
    except TimeoutError:
        assert seen == expected
