"""Network policies hold for programs, by address and by service."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from e2e.conftest import MAPPINGS
from e2e.network_policies import DNS, SHELL, assert_reached, page_pod, pods, policy, serve
from e2e.objects import pod
from e2e.programs.test_programs import web

if TYPE_CHECKING:
    from pytest_kwait import Kwait

pytestmark = [pytest.mark.needs(MAPPINGS), pytest.mark.kwait_skip_unless_programs_isolated]

PAGE, WEB = {"page", "service page"}, {"web", "service web"}


@pytest.fixture
def addresses(kwait: Kwait) -> dict[str, str]:
    """Return the addresses of a program, of an interpreted server, and of their services."""
    programs = (
        pod(name, web(), labels={"app": name}, terminationGracePeriodSeconds=5)
        for name in ("web", "customer")
    )
    return serve(kwait, *programs, servers=("web", "page"))


@pytest.mark.parametrize("client", ["customer", SHELL])
def test_only_chosen_pods_come_in(kwait: Kwait, addresses: dict[str, str], client: str) -> None:
    """A policy without rules closes a pod; another one opens it for pods with a label."""
    assert_reached(kwait, client, addresses, PAGE | WEB)
    kwait.create(policy("closed", "web", ingress=[]))
    assert_reached(kwait, client, addresses, PAGE)
    kwait.create(policy("closed-page", "page", ingress=[]))
    assert_reached(kwait, client, addresses, set())
    for name in ("web", "page"):
        kwait.create(policy(f"open-{name}", name, ingress=[{"from": [pods(app=client)]}]))
    assert_reached(kwait, client, addresses, PAGE | WEB)


def test_programs_go_where_they_may(kwait: Kwait, addresses: dict[str, str]) -> None:
    """To pods that a policy chooses, on its ports; names need the DNS server."""
    addresses["name of web"] = "web"
    kwait.create(policy("out", "customer", egress=[{"to": [pods(app="web")]}]))
    assert_reached(kwait, "customer", addresses, WEB)
    kwait.create(policy("names", "customer", egress=[DNS]))
    assert_reached(kwait, "customer", addresses, {*WEB, "name of web"})
    kwait.patch("networkpolicy/out", {"spec": {"egress": [{"ports": [{"port": 8081}]}]}})
    assert_reached(kwait, "customer", addresses, set())


def test_changed_labels_change_what_is_allowed(kwait: Kwait, addresses: dict[str, str]) -> None:
    """Of pods and namespaces; a removed policy allows all again."""
    kwait.create(policy("closed", "web", ingress=[{"from": [pods(team="shop")]}]))
    places = {name: addresses[name] for name in WEB}
    assert_reached(kwait, "customer", places, set())
    kwait.patch("pod/customer", {"metadata": {"labels": {"team": "shop"}}})
    assert_reached(kwait, "customer", places, WEB)
    kwait.patch("pod/customer", {"metadata": {"labels": {"team": None}}})
    assert_reached(kwait, "customer", places, set())
    peer = {"namespaceSelector": {"matchLabels": {"team": "shop"}}}
    kwait.patch("networkpolicy/closed", {"spec": {"ingress": [{"from": [peer]}]}})
    kwait.patch(f"namespace/{kwait.namespace}", {"metadata": {"labels": {"team": "shop"}}})
    assert_reached(kwait, "customer", places, WEB)
    kwait.patch("networkpolicy/closed", {"spec": {"ingress": []}})
    assert_reached(kwait, "customer", places, set())
    kwait.delete("networkpolicy/closed")
    assert_reached(kwait, "customer", places, WEB)


def test_programs_that_come_later_are_restricted_from_the_start(kwait: Kwait) -> None:
    """They cannot connect before the policies hold for them."""
    kwait.create(
        policy("closed", "late", egress=[]), page_pod(),
        pod("web", web(), labels={"app": "web"}, terminationGracePeriodSeconds=5),
    )  # fmt: skip
    for name in ("page", "web"):
        kwait.wait_for_pod_ready(name)
    places = [kwait.get(f"pod/{name}")["status"]["podIP"] for name in ("page", "web")]
    code = (
        "import socket\n"
        f"for host in {places}:\n"
        "    made = socket.socket()\n"
        "    made.settimeout(1)\n"
        "    print(made.connect_ex((host, 8080)) != 0)"
    )
    late = {
        "name": "main", "image": "kwait.test/shop/shell:1", "command": [sys.executable, "-c", code],
    }  # fmt: skip
    kwait.create(pod("late", late, labels={"app": "late"}, restartPolicy="Never"))
    kwait.wait_for_pod_success("late")
    assert kwait.logs("late").split() == ["True", "True"]
