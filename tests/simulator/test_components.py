from __future__ import annotations

import inspect
from importlib import import_module

import pytest

from pytest_kwait.simulator.cluster import SimulatedCluster
from pytest_kwait.simulator.components import (
    COMPONENTS,
    SERVER_COMPONENTS,
    Component,
    Factory,
    SharedParts,
    start_components,
    start_server_components,
)
from tests.simulator.manual_clock import ManualClock

CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
ROWS = (*SERVER_COMPONENTS, *COMPONENTS)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the factories that are called; none of them is."""
    names: list[str] = []
    monkeypatch.setattr(Factory, "call", lambda factory, _shared: names.append(factory.name))
    return names


@pytest.fixture
def api() -> SimulatedCluster:
    cluster = SimulatedCluster(ManualClock(), disabled_plugins=["ServiceAccount"])
    cluster.bootstrap()
    return cluster


def advance(api: SimulatedCluster, seconds: float) -> None:
    assert isinstance(api.clock, ManualClock)
    api.clock.advance(seconds)


def names(*rows: Component) -> list[str]:
    return [factory.name for row in rows for factory in row.factories]


@pytest.mark.parametrize(
    "factory", [factory for row in ROWS for factory in row.factories], ids=lambda each: each.name
)
def test_a_factory_takes_its_arguments(factory: Factory) -> None:
    start = getattr(import_module(f"pytest_kwait.simulator.{factory.module}"), factory.name)
    inspect.signature(start).bind(*factory.arguments)
    known = {*vars(SharedParts), *vars(SharedParts(SimulatedCluster(ManualClock())))}
    assert {*factory.arguments} <= known


def test_late_components_start_a_second_after_the_others(
    api: SimulatedCluster, started: list[str]
) -> None:
    start_server_components(api)
    at_once = [row for row in SERVER_COMPONENTS if not (row.first_objects or row.is_late)]
    assert started == names(*at_once)
    advance(api, 0.9)
    assert started == names(*at_once)
    advance(api, 0.2)
    late = [row for row in SERVER_COMPONENTS if row.is_late and not row.first_objects]
    assert (
        started
        == names(*at_once, *late)
        == [
            "EventTTL",
            "create_config_maps",
            "hold_identity_lease",
            "IPAddressController",
            "AutoRegistrationController",
        ]
    )


def test_a_component_starts_once_with_the_first_object_that_is_meant(
    api: SimulatedCluster, started: list[str]
) -> None:
    start_components(api, nodes=0)
    advance(api, 2)
    started.clear()

    pod = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    api.create("pods", pod, "default")
    assert started == []

    volume = {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": CLAIM}}}
    for name in ("b", "c"):
        spec = {"containers": [{"name": "c", "image": "i"}], "volumes": [volume]}
        api.create("pods", {"metadata": {"name": name}, "spec": spec}, "default")
    assert started == ["EphemeralVolumeController"]


@pytest.mark.parametrize(
    ("authority", "signers"), [(None, []), ((b"", b""), ["CertificateController"])]
)
def test_certificates_are_signed_where_there_is_an_authority(
    api: SimulatedCluster,
    started: list[str],
    authority: tuple[bytes, bytes] | None,
    signers: list[str],
) -> None:
    start_components(api, nodes=0, authority=authority)
    started.clear()
    spec = {"request": "", "signerName": "example.com/s", "usages": ["client auth"]}
    request = {"metadata": {"name": "a"}, "spec": spec}
    resource = "certificatesigningrequests.certificates.k8s.io"
    api.store.put(resource, "a", request)
    assert started == signers


def test_a_cluster_has_a_storage_class_and_the_service_of_dns(api: SimulatedCluster) -> None:
    start_components(api, nodes=0)
    (storage_class,) = api.list("storageclasses.storage.k8s.io")
    assert storage_class["metadata"]["name"] == "standard"
    assert api.get("services", "kube-dns", "kube-system")["spec"]["clusterIP"] == "10.0.0.10"
