from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pytest_kwait import wait
from pytest_kwait.client.certificate_client import CertificateClient
from pytest_kwait.client.session import ApiSession
from pytest_kwait.remote.cluster import RemoteCluster
from pytest_kwait.remote.rest_client import RESTClient
from pytest_kwait.testing import FakeClock
from tests.certificates import write_certificates
from tests.simulator.apiserver.conftest import Served
from tests.simulator.manual_clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.client.certificate_client import Credentials
    from pytest_kwait.simulator.authentication.pki import CertificateAuthority

_USED_KINDS = {
    "clusterroles", "configmaps", "customresourcedefinitions", "leases", "namespaces", "nodes",
    "pods", "replicasets", "secrets", "serviceaccounts",
}  # fmt: skip


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[CertificateAuthority, Credentials]:
    return write_certificates(tmp_path_factory.mktemp("credentials"))


@pytest.fixture
def served(authority: tuple[CertificateAuthority, Credentials]) -> Iterator[Served]:
    """An API server; its objects are what other clients see and write."""
    served = Served(authority[0].tls)
    try:
        yield served
        # Its handlers of watches end when it has seen that the clients are gone.
        server = served._server._web
        wait.poll_immediate(0.01, 10, lambda: server is None or not server.connections)
    finally:
        served.close()


@pytest.fixture
def clock() -> FakeClock:
    """The time of retries."""
    return FakeClock()


@pytest.fixture
def session(
    served: Served, authority: tuple[CertificateAuthority, Credentials]
) -> Iterator[ApiSession]:
    server = f"https://127.0.0.1:{served.port}"
    session = ApiSession(CertificateClient(server, authority[1], "kwait-controllers"))
    yield session
    session.close()


@pytest.fixture
def client(session: ApiSession, clock: FakeClock) -> RESTClient:
    return RESTClient(session, clock)


@pytest.fixture
def manual_clock() -> ManualClock:
    """The time of the controllers."""
    return ManualClock()


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """The event loop of a cluster."""
    with asyncio.Runner() as runner:
        yield runner.get_loop()


@pytest.fixture
def cluster_of_all_kinds(
    client: RESTClient,
    authority: tuple[CertificateAuthority, Credentials],
    manual_clock: ManualClock,
    loop: asyncio.AbstractEventLoop,
) -> Iterator[RemoteCluster]:
    """A cluster whose mirror is filled, and changes by its own writes or while the loop runs."""
    cluster = RemoteCluster(client, authority[1].key.read_bytes(), manual_clock)
    try:
        loop.run_until_complete(cluster.follow())
        yield cluster
    finally:
        loop.run_until_complete(cluster.close())


@pytest.fixture
def _few_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of the time of a test goes into the lists and watches of all kinds."""
    served = RemoteCluster._list_served
    monkeypatch.setattr(
        RemoteCluster,
        "_list_served",
        lambda cluster: {kind for kind in served(cluster) if kind[1] in _USED_KINDS},
    )


@pytest.fixture
def cluster(_few_kinds: None, cluster_of_all_kinds: RemoteCluster) -> RemoteCluster:
    """A cluster as above, of the kinds that tests use."""
    return cluster_of_all_kinds
