from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from pytest_kwait.client.certificate_client import CertificateClient
from pytest_kwait.client.session import ApiSession
from tests.certificates import write_certificates
from tests.client.scripted_server import ScriptedServer, answer

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait.clock import Deadline


def test_requests_are_authorized_by_the_certificate(tmp_path: Path, soon: Deadline) -> None:
    authority, credentials = write_certificates(tmp_path)
    tls = authority.tls
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_verify_locations(credentials.authority)
    with ScriptedServer(answer({"kind": "Status"}), tls=tls) as server:
        client = CertificateClient(server.address, credentials, "our-program")
        session = ApiSession(client)
        session.request("GET", "/version", deadline=soon)
        session.close()
    assert server.requests[0].headers == {
        "host": f"127.0.0.1:{server.port}",
        "accept": "application/json",
        "accept-encoding": "identity",
        "user-agent": "our-program",
    }
    assert session.credentials() == frozenset()
