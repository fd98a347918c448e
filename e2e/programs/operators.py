"""Manifests of operators: filled in for a test, with the certificate of their webhook."""

from __future__ import annotations

import base64
from string import Template
from typing import TYPE_CHECKING, Any

import trustme

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait import Kwait


def fill_in(manifest: Path, kwait: Kwait, **more: str) -> str:
    """Return a manifest with the test's namespace, which is also part of its API group."""
    return Template(manifest.read_text()).safe_substitute(NAMESPACE=kwait.namespace, **more)


def make_certificate(kwait: Kwait, service: str) -> tuple[dict[str, Any], str]:
    """Return a Secret with a service's certificate, and its authority for `caBundle`."""
    authority = trustme.CA()
    issued = authority.issue_cert(f"{service}.{kwait.namespace}.svc")
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "webhook-tls"},
        "type": "kubernetes.io/tls",
        "stringData": {
            "tls.crt": b"".join(one.bytes() for one in issued.cert_chain_pems).decode(),
            "tls.key": issued.private_key_pem.bytes().decode(),
            "ca.crt": authority.cert_pem.bytes().decode(),
        },
    }
    return secret, base64.b64encode(authority.cert_pem.bytes()).decode()
