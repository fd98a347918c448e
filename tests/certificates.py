"""The files of a certificate authority and of an administrator's client certificate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.times import parse_time
from pytest_kwait.client.certificate_client import Credentials
from pytest_kwait.simulator.apiserver.filters import ADMINS
from pytest_kwait.simulator.authentication.pki import CertificateAuthority
from pytest_kwait.simulator.request_info import User

if TYPE_CHECKING:
    from pathlib import Path


def write_certificates(folder: Path) -> tuple[CertificateAuthority, Credentials]:
    """Write a certificate for an administrator of 127.0.0.1, and its authority's."""
    authority = CertificateAuthority("127.0.0.1")
    certificate = authority.client_certificate(
        User("admin", (ADMINS,)), parse_time("2026-01-01T00:00:00Z")
    )
    files = [folder / name for name in ("ca.crt", "admin.crt", "admin.key")]
    for file, text in zip(files, (authority.pem, *certificate), strict=True):
        file.write_text(text)
    return authority, Credentials(*files)
