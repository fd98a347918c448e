"""The kubeconfig that a cluster's process writes for its clients."""

from __future__ import annotations

import base64
import json
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_CONTEXT_NAME = "kwait"


def write_kubeconfig(
    path: Path,
    server: str,
    ca: str,
    tokens: Mapping[str, str],
    certificates: Mapping[str, tuple[str, str]] | None = None,
    *,
    namespace: str = "",
) -> None:
    """Write a kubeconfig atomically, readable by its owner only.

    Args:
        path: where.
        server: the server's URL.
        ca: its certificate authority as PEM.
        tokens: bearer tokens by user; the first user's context is the current one.
        certificates: client certificates and their keys as PEM, by user.
        namespace: the namespace of the contexts; empty for the default one.

    Raises:
        OSError: the folder cannot be written to.
    """
    users = {name: {"token": token} for name, token in tokens.items()}
    for name, (certificate, key) in (certificates or {}).items():
        users[name] = {
            "client-certificate-data": base64.b64encode(certificate.encode()).decode(),
            "client-key-data": base64.b64encode(key.encode()).decode(),
        }
    names = list(users)
    place = {"namespace": namespace} if namespace else {}
    contexts = {_CONTEXT_NAME if index == 0 else name: name for index, name in enumerate(names)}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": _CONTEXT_NAME,
                "cluster": {
                    "server": server,
                    "certificate-authority-data": base64.b64encode(ca.encode()).decode(),
                },
            }
        ],
        "users": [{"name": name, "user": user} for name, user in users.items()],
        "contexts": [
            {"name": context, "context": {"cluster": _CONTEXT_NAME, "user": user, **place}}
            for context, user in contexts.items()
        ],
        "current-context": _CONTEXT_NAME,
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
