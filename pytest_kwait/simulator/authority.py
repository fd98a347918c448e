"""The certificate of the server, and the kubeconfig that leads to it.

One authority per process: nothing secret is kept on disk but the kubeconfig itself.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Authority", "write_kubeconfig"]

CONTEXT = "kwait"


class Authority:
    """A certificate authority and the server's certificate.

    Args:
        hosts: the names and addresses that the server is reached by.
    """

    def __init__(self, *hosts: str) -> None:
        import trustme

        authority = trustme.CA()
        certificate = authority.issue_cert(*hosts)
        self.pem = authority.cert_pem.bytes().decode()
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.set_alpn_protocols(["http/1.1"])
        certificate.configure_cert(self.tls)


def write_kubeconfig(path: Path, server: str, ca: str, tokens: dict[str, str]) -> None:
    """Write the file whole or not at all, readable by its owner alone.

    Args:
        path: where.
        server: the server's URL.
        ca: its certificate authority as PEM.
        tokens: bearer tokens by user; the first user's context is the current one.

    Raises:
        OSError: the folder cannot be written to.
    """
    names = list(tokens)
    contexts = {CONTEXT if index == 0 else name: name for index, name in enumerate(names)}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": CONTEXT,
                "cluster": {
                    "server": server,
                    "certificate-authority-data": base64.b64encode(ca.encode()).decode(),
                },
            }
        ],
        "users": [{"name": name, "user": {"token": token}} for name, token in tokens.items()],
        "contexts": [
            {"name": context, "context": {"cluster": CONTEXT, "user": user}}
            for context, user in contexts.items()
        ],
        "current-context": CONTEXT,
    }
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            json.dump(content, file, indent=2)
            file.write("\n")
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
