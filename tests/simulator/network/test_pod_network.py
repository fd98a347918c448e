"""Requests of the API server to services, through the network of programs."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.clock import async_sleep
from pytest_kwait.simulator.admission.webhooks.webhook_client import connection_error_text
from pytest_kwait.simulator.busybox.os.network import Network
from pytest_kwait.simulator.network.network_policies import NETWORK_POLICIES
from pytest_kwait.simulator.network.pod_network import (
    PodNetwork,
    get_pod_networks,
    make_service_connector,
)
from tests.objects import pod
from tests.simulator.cluster import new_cluster
from tests.simulator.network.loopback_sockets import LoopbackSockets
from tests.simulator.network.test_egress_proxy import list_events, settle

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster
    from tests.simulator.cluster import Cluster


@pytest.mark.parametrize("is_isolated", [True, False])
def test_no_service_is_looked_for_on_the_machines_network(
    cluster: Cluster, is_isolated: bool
) -> None:
    made: list[str] = []

    class Sockets:
        async def is_isolated(self) -> bool:
            return is_isolated

        async def connect_socket(self, kind: str) -> None:
            made.append(kind)

    network: Any = SimpleNamespace(sockets=Sockets())
    get_pod_networks(cluster.api).current = network

    async def connect() -> None:
        connector = await make_service_connector(cluster.api)
        assert connector is not None
        await connector.close()

    if is_isolated:
        asyncio.run(connect())
        assert made == ["tcp"]
        return
    with pytest.raises(ConnectionRefusedError) as caught:
        asyncio.run(connect())
    assert made == []
    assert connection_error_text(caught.value, "https://10.0.0.12:443/check") == (
        "dial tcp 10.0.0.12:443: connect: connection refused"
    )


def _close(api: SimulatedCluster, name: str) -> None:
    spec = {"podSelector": {}, "policyTypes": ["Egress"]}
    api.create(NETWORK_POLICIES, {"metadata": {"name": name}, "spec": spec}, "default")


async def _open_network(api: SimulatedCluster, sockets: LoopbackSockets) -> PodNetwork:
    found = pod("web", "Running", namespace="default", podIP="10.244.0.4", hostIP="172.30.0.2")
    kubelet: Any = SimpleNamespace(list_addresses=lambda: [("10.244.0.4", found)])
    api.kubelets["n"] = kubelet
    network = PodNetwork(api, sockets, lambda _: None, ("127.0.0.1", 6443))
    await settle()
    return network


def test_rules_are_sent_when_they_have_changed() -> None:
    async def send() -> None:
        api, sockets = new_cluster(), LoopbackSockets()
        network = await _open_network(api, sockets)
        assert network.update_filter() is None
        _close(api, "first")
        task = network.update_filter()
        assert task is not None
        # Those of a change meanwhile follow before it ends.
        api.delete(NETWORK_POLICIES, "first", "default")
        assert network.update_filter() is task
        await task
        assert network.update_filter() is None
        assert [bool(rules) for rules in sockets.filters] == [False]
        _close(api, "second")
        started = network.update_filter()
        assert started is not None
        await async_sleep(0)
        api.delete(NETWORK_POLICIES, "second", "default")
        network.update_filter()
        await started
        assert [bool(rules) for rules in sockets.filters] == [False, True, False]
        await network.close()

    asyncio.run(send())


def test_refused_rules_are_an_event_of_the_policies() -> None:
    async def send() -> list[tuple[str, str, str]]:
        api, sockets = new_cluster(), LoopbackSockets()
        sockets.filter_refusal = "programs are plain processes"
        network = await _open_network(api, sockets)
        _close(api, "closed")
        task = network.update_filter()
        assert task is not None
        await task
        await network.close()
        return list_events(api)

    message = "programs in pods are not restricted: programs are plain processes"
    assert asyncio.run(send()) == [("closed", "NotEnforced", message)]


def test_interpreted_pod_changes_the_rules(cluster: Cluster) -> None:
    """Before its ports are open to programs."""
    calls: list[str] = []
    network: Any = SimpleNamespace(
        update_filter=lambda: calls.append("filter"),
        follow_simulated=lambda address, _: calls.append(address),
    )
    networks = get_pod_networks(cluster.api)
    networks.current = network
    networks.add_simulated("10.244.0.5", Network())
    assert calls == ["filter", "10.244.0.5"]
