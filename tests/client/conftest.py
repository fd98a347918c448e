"""What the tests of requests share: a certificate, and limits that end a broken test."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, NamedTuple

import pytest
import trustme

from pytest_kwait.clock import Deadline
from tests.advanced_clock import AdvancedClock

if TYPE_CHECKING:
    from pathlib import Path


class Authority(NamedTuple):
    """TLS for a server, and the file that makes clients trust it."""

    server: ssl.SSLContext
    certificate: str


@pytest.fixture
def guard_clock(monkeypatch: pytest.MonkeyPatch) -> AdvancedClock:
    """The clock of all guards."""
    clock = AdvancedClock()
    monkeypatch.setattr("pytest_kwait.client.deadlines.SYSTEM_CLOCK", clock)
    return clock


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    issuer = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issuer.issue_cert("127.0.0.1", "localhost").configure_cert(context)
    path: Path = tmp_path_factory.mktemp("tls") / "ca.crt"
    issuer.cert_pem.write_to_path(str(path))
    return Authority(context, str(path))


@pytest.fixture
def soon() -> Deadline:
    """A deadline that only a broken test meets."""
    return Deadline.after(60)
