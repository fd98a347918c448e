"""A client with a certificate, for an `ApiSession` without the official client.

It has what a session reads of an `ApiClient`. Programs of ours that have a certificate start half
a second sooner with it, and take 20 MB less.
"""

from __future__ import annotations

import ssl
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import urllib3

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class Credentials(NamedTuple):
    """The files of a client certificate, and of the authority of the server's."""

    authority: Path
    certificate: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """Return the TLS context of connections.

        Raises:
            OSError: a file cannot be used.
        """
        context = ssl.create_default_context(cafile=str(self.authority))
        # The default from Python 3.13; envtest's certificates lack what it requires.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        context.load_cert_chain(self.certificate, self.key)
        return context


class _Configuration:
    """The settings of the official client's `Configuration` that a transport reads."""

    username = None
    password = None

    def __init__(self, host: str) -> None:
        self.host = host
        self.api_key: dict[str, str] = {}

    def auth_settings(self) -> Mapping[str, Mapping[str, str]]:
        """Return no header: the certificate authorizes."""
        return {}


class CertificateClient:
    """The settings of requests that a client certificate authorizes.

    Args:
        server: the URL of the server.
        credentials: the certificate.
        user_agent: the name of the program; the server names field managers after it.

    Raises:
        OSError: a file of the credentials cannot be used.
    """

    cookie = None

    def __init__(self, server: str, credentials: Credentials, user_agent: str) -> None:
        self.configuration: Any = _Configuration(server)
        self.default_headers = {"User-Agent": user_agent}
        manager = urllib3.PoolManager(ssl_context=credentials.context())
        self.rest_client = SimpleNamespace(pool_manager=manager)
