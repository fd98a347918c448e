"""Waiting for the API server and for aggregated APIs."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from e2e.raising import raises, times_out
from pytest_kwait import WaitFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait import Kwait

    Wait = Callable[..., Any]


def test_a_healthy_server(wait_for_api_server_healthy: Wait) -> None:
    """With `stable_for`, one answer is not enough."""
    assert wait_for_api_server_healthy(timeout="4m") is None
    assert wait_for_api_server_healthy(timeout="4m", stable_for="300ms") is None
    assert wait_for_api_server_healthy(timeout="4m", mode="poll") is None


def test_a_group_of_the_server_itself(wait_for_api_service_available: Wait) -> None:
    for name in ("v1.apps", "v1."):
        assert wait_for_api_service_available(name, timeout="4m")["kind"] == "APIService"
    times_out(
        "apiservice v1.nobody.example did not become available .*not found",
        wait_for_api_service_available,
        "v1.nobody.example",
    )


def test_a_group_whose_service_is_missing(
    kwait: Kwait, wait_for_api_service_available: Wait
) -> None:
    """Believed after `grace`. It disturbs the discovery of everybody: it is there for a moment."""
    group = f"g{secrets.token_hex(4)}.example"
    name = f"v1.{group}"
    kwait.create(
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": name},
            "spec": {
                "group": group,
                "version": "v1",
                "groupPriorityMinimum": 10,
                "versionPriority": 10,
                "service": {"name": "nowhere", "namespace": kwait.namespace},
                "insecureSkipTLSVerify": True,
            },
        }
    )
    try:
        with raises(WaitFailed, 'Available is False: ServiceNotFound: service/nowhere in "'):
            wait_for_api_service_available(name, timeout="4m", grace="1s")
    finally:
        kwait.delete(f"apiservice/{name}")
