"""The API server behind the proxy: how a client's own settings reach it, and how they reach us."""

from __future__ import annotations

import base64
import json
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from pathlib import Path

    from kubernetes.client import ApiClient

__all__ = ["Upstream"]


@dataclass(frozen=True)
class Upstream:
    """An API server and the credentials for it.

    Args:
        host: its host.
        port: its port.
        tls: trusts it, and has the user's certificate; None for plain HTTP.
        user: the user of a kubeconfig: certificate and token, as far as there are any.
    """

    host: str
    port: int
    tls: ssl.SSLContext | None
    user: dict[str, str]

    @classmethod
    def of(cls, client: ApiClient) -> Upstream:
        """Return where a client's requests go."""
        settings = client.configuration
        address = urlsplit(settings.host)
        user: dict[str, str] = {}
        tls = None
        if address.scheme == "https":
            tls = ssl.create_default_context(cafile=settings.ssl_ca_cert)
            if settings.cert_file:
                tls.load_cert_chain(settings.cert_file, settings.key_file)
                user |= {
                    "client-certificate": settings.cert_file,
                    "client-key": settings.key_file,
                }
        for setting in settings.auth_settings().values():
            if setting["key"] == "authorization":
                user["token"] = setting["value"].removeprefix("Bearer ")
        return cls(str(address.hostname), address.port or 443, tls, user)

    def kubeconfig(self, file: Path, address: str, authority: bytes) -> Path:
        """Write a kubeconfig of the same user that leads to another address.

        The user's certificate is presented by whoever is there: TLS ends with them.

        Args:
            file: where to write it.
            address: the URL of the server it leads to.
            authority: the certificate that vouches for that server, as PEM.
        """
        cluster = {
            "server": address,
            "certificate-authority-data": base64.b64encode(authority).decode(),
        }
        content: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "proxy", "cluster": cluster}],
            "users": [{"name": "same", "user": self.user}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "same"}}],
            "current-context": "proxy",
        }
        file.touch(mode=0o600)
        file.write_text(json.dumps(content))  # JSON is YAML
        return file
