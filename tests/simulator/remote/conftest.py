from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pytest_kwait import wait
from pytest_kwait.apimachinery.times import parse_time
from pytest_kwait.simulator.apiserver.filters import ADMINS
from pytest_kwait.simulator.authentication.pki import CertificateAuthority
from pytest_kwait.simulator.remote.connection import Connection, Credentials
from pytest_kwait.simulator.remote.remote_cluster import RemoteCluster
from pytest_kwait.simulator.request_info import User
from pytest_kwait.testing import FakeClock
from tests.simulator.apiserver.conftest import Served
from tests.simulator.manual_clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[CertificateAuthority, Credentials]:
    folder: Path = tmp_path_factory.mktemp("credentials")
    authority = CertificateAuthority("127.0.0.1")
    certificate = authority.client_certificate(
        User("admin", (ADMINS,)), parse_time("2026-01-01T00:00:00Z")
    )
    files = [folder / name for name in ("ca.crt", "admin.crt", "admin.key")]
    for file, text in zip(files, (authority.pem, *certificate), strict=True):
        file.write_text(text)
    return authority, Credentials(*files)


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
    return FakeClock()


@pytest.fixture
def connection(
    served: Served, authority: tuple[CertificateAuthority, Credentials], clock: FakeClock
) -> Iterator[Connection]:
    connection = Connection(f"https://127.0.0.1:{served.port}", authority[1], clock)
    yield connection
    asyncio.run(connection.close())


@pytest.fixture
def manual_clock() -> ManualClock:
    """The time of the controllers."""
    return ManualClock()


@pytest.fixture
def api(
    connection: Connection,
    authority: tuple[CertificateAuthority, Credentials],
    manual_clock: ManualClock,
) -> RemoteCluster:
    """A cluster whose mirror is filled and follows nothing."""
    key = authority[1].key.read_bytes()
    api = RemoteCluster(connection, key, manual_clock)
    api.list_all()
    return api
