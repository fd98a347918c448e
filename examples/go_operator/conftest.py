"""The operator's image, built from this folder, and the operator as tests start from it."""

from __future__ import annotations

import base64
import fcntl
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trustme

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kwait import Kwait

SOURCES = Path(__file__).parent
PROGRAM = SOURCES / "bin" / "manager"


@pytest.fixture(scope="session")
def kwait_images() -> Mapping[str, object]:
    """Build the operator and map its image to the program; a real cluster pulls the image."""
    if shutil.which("go") is None:
        return {}
    PROGRAM.parent.mkdir(exist_ok=True)
    variables = {**os.environ, "CGO_ENABLED": "0"}
    with PROGRAM.with_name("lock").open("w") as lock:
        # One of the workers builds; for the others nothing has changed.
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(["go", "build", "-o", PROGRAM, "."], cwd=SOURCES, env=variables, check=True)
    return {"example.com/site-operator": [PROGRAM]}


@pytest.fixture
def operator(kwait: Kwait) -> Kwait:
    """Deploy the operator in the test's namespace, with a definition of its own."""
    secret, authority = make_certificate(f"sites.{kwait.namespace}.svc")
    kwait.apply(
        secret,
        "manifests/operator.yaml",
        namespace=kwait.namespace,
        group=f"{kwait.namespace}.example.com",
        authority=authority,
    )
    kwait.wait_for_deployment_complete("sites")
    return kwait


def make_certificate(name: str) -> tuple[dict[str, Any], str]:
    """Return a Secret with a certificate for a name, and its authority for `caBundle`."""
    authority = trustme.CA()
    certificate = authority.issue_cert(name)
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "webhook-tls"},
        "type": "kubernetes.io/tls",
        "stringData": {
            "tls.crt": certificate.cert_chain_pems[0].bytes().decode(),
            "tls.key": certificate.private_key_pem.bytes().decode(),
        },
    }
    return secret, base64.b64encode(authority.cert_pem.bytes()).decode()
