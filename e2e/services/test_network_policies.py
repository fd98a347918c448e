"""Network policies hold for interpreted pods, and an event says why a connection is denied."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from e2e.conftest import NETWORK_POLICIES
from e2e.network_policies import DNS, SHELL, assert_reached, pods, policy, serve

if TYPE_CHECKING:
    from pytest_kwait import Kwait

pytestmark = pytest.mark.needs(NETWORK_POLICIES)

PAGE = {"page", "service page"}


@pytest.fixture
def addresses(kwait: Kwait) -> dict[str, str]:
    """Return the addresses of a pod and its service."""
    return serve(kwait, servers=("page",))


def test_only_chosen_pods_come_in(kwait: Kwait, addresses: dict[str, str]) -> None:
    """A policy without rules closes a pod; another one opens it for pods with a label."""
    assert_reached(kwait, SHELL, addresses, PAGE)
    kwait.create(policy("closed", "page", ingress=[]))
    assert_reached(kwait, SHELL, addresses, set())
    kwait.create(policy("open", "page", ingress=[{"from": [pods(app=SHELL)]}]))
    assert_reached(kwait, SHELL, addresses, PAGE)
    kwait.delete("networkpolicy/open")
    assert_reached(kwait, SHELL, addresses, set())


def test_pods_go_where_they_may(kwait: Kwait, addresses: dict[str, str]) -> None:
    """To pods that a policy chooses, on its ports; names need the DNS server."""
    addresses["name of page"] = "page"
    kwait.create(policy("out", SHELL, egress=[{"to": [pods(app="page")]}]))
    assert_reached(kwait, SHELL, addresses, PAGE)
    kwait.create(policy("names", SHELL, egress=[DNS]))
    assert_reached(kwait, SHELL, addresses, {*PAGE, "name of page"})
    kwait.patch("networkpolicy/out", {"spec": {"egress": [{"ports": [{"port": 8081}]}]}})
    assert_reached(kwait, SHELL, addresses, set())


def test_denied_connection_is_an_event(kwait: Kwait, addresses: dict[str, str]) -> None:
    """Of the client's pod, with the policy."""
    kwait.create(policy("closed", "page", ingress=[]))
    assert_reached(kwait, SHELL, addresses, set())
    messages = {
        event["message"] for event in kwait.events() if event["reason"] == "ConnectionDenied"
    }
    assert messages == {
        f"connection to {addresses['page']}/TCP is denied: ingress of pod page by network policy "
        "closed"
    }
