"""What the kopf operator of Sites must do, as a check for each mistake that can be planted in it.

The Sites of each check have names of their own, so that one operator can serve all checks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from conformance.explore.site_operator import site
from conformance.explore.workloads import look_around, wait_until_served
from e2e.objects import pod

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait import Kwait

IMAGE = "kwait.test/explore/kopf-operator:1"
DIRECTORY = "directory"
HEALTH = "http://0.0.0.0:8080/healthz"


class StartKopf(Protocol):
    """Starts the kopf operator with a mistake or without; returns once it is ready."""

    def __call__(self, mistake: str) -> None:
        """Start it."""


def check_directory(kwait: Kwait) -> None:
    """A Site gets its line in the directory also if others write there."""
    kwait.create(site("blog"))
    kwait.wait_for("configmap/blog-port", "create")
    look_around(kwait)
    kwait.label(f"configmap/{DIRECTORY}", {"team": "a"})
    wait_until_served(kwait, "blog")
    assert "blog" in (kwait.get(f"configmap/{DIRECTORY}").get("data") or {})


def check_pages(kwait: Kwait) -> None:
    """Each of many Sites has a page."""
    names = ("docs", "help", "jobs", "maps", "shop")
    for name in names:
        kwait.create(site(name))
    for name in names:
        kwait.wait_for(f"configmap/{name}-page", "create")


def check_ports(kwait: Kwait) -> None:
    """Two Sites have two ports."""
    ports = []
    for name in ("home", "news"):
        kwait.create(site(name))
        wait_until_served(kwait, name)
        look_around(kwait)
        ports.append(kwait.get(f"configmap/{name}-port")["data"]["port"])
    assert len(set(ports)) == 2, ports


def check_records(kwait: Kwait) -> None:
    """A record goes with its Site."""
    names = ("one", "two", "three")
    for name in names:
        kwait.create(site(name))
    for name in names:
        wait_until_served(kwait, name)
    for name in names:
        kwait.delete_and_wait(f"site/{name}")
    for name in names:
        kwait.wait_for(f"configmap/{name}-record", "delete")


def check_conditions(kwait: Kwait) -> None:
    """The operator keeps the conditions that others have reported."""
    kwait.create(site("wiki"))
    wait_until_served(kwait, "wiki")
    kwait.patch("site/wiki", {"spec": {"text": "Closed"}})
    for _ in range(3):
        look_around(kwait)
    reviewed = {"type": "Reviewed", "status": "True"}

    def review(found: dict[str, Any]) -> None:
        found["status"]["conditions"].append(reviewed)

    kwait.update("site/wiki", review, subresource="status")
    found = wait_until_served(kwait, "wiki")
    assert "Reviewed" in [each["type"] for each in found["status"]["conditions"]]


def check_text(kwait: Kwait) -> None:
    """A page has the text of the config map that its Site names."""
    texts = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "texts"}}
    kwait.create({**texts, "data": {"text": "Hello"}})
    look_around(kwait)
    kwait.create(site("lobby", text_from="texts"))
    wait_until_served(kwait, "lobby")
    assert "Hello" in kwait.get("configmap/lobby-page")["data"]["index.html"]


TESTS: dict[str, Callable[[Kwait], None]] = {
    "ignored_conflict": check_directory,
    "ignored_refusal": check_pages,
    "stale_cache": check_ports,
    "missed_delete": check_records,
    "status_overwrite": check_conditions,
    "event_order": check_text,
}
"""The check that each mistake fails now and then."""


def manifests(mistake: str) -> list[dict[str, Any]]:
    """Return the operator's pod, its service account with all rights here, and the directory."""
    account = {"kind": "ServiceAccount", "name": "sites"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    operator = {
        "name": "operator",
        "image": IMAGE,
        "args": ["--namespace=$(POD_NAMESPACE)", "--standalone", f"--liveness={HEALTH}"],
        "env": [
            {"name": "MISTAKE", "value": mistake},
            {
                "name": "POD_NAMESPACE",
                "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}},
            },
        ],
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 1},
    }
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": DIRECTORY}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "sites"}},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "sites"},
            "roleRef": role,
            "subjects": [account],
        },
        pod("sites", operator, labels={"app": "sites"}, serviceAccountName="sites"),
    ]
