"""Certificate signing: request, approval, and authentication by the certificate."""

from __future__ import annotations

import base64
import json
import ssl
from http.client import HTTPSConnection
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from kubernetes.client import CertificatesV1Api

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait import Kwait

REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


def test_an_issued_certificate_authenticates_its_user(kwait: Kwait, tmp_path: Path) -> None:
    """Only an approver can run `kubectl certificate approve`."""
    name = kwait.namespace
    key = ec.generate_private_key(ec.SECP256R1())
    parts = [(NameOID.ORGANIZATION_NAME, "testers"), (NameOID.COMMON_NAME, name)]
    subject = x509.Name([x509.NameAttribute(kind, text) for kind, text in parts])
    asked = x509.CertificateSigningRequestBuilder().subject_name(subject)
    content = asked.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    kwait.create(
        {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"name": name},
            "spec": {
                "request": base64.b64encode(content).decode(),
                "signerName": "kubernetes.io/kube-apiserver-client",
                "usages": ["digital signature", "client auth"],
                "expirationSeconds": 3600,
            },
        }
    )
    try:
        _approve(kwait, name)
        target = f"csr/{name}"
        found = kwait.wait_for(target, lambda one: "certificate" in one["status"], timeout="60s")
        files = tmp_path / "certificate", tmp_path / "key"
        files[0].write_bytes(base64.b64decode(found["status"]["certificate"]))
        files[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        user = _who_am_i(kwait, files)
    finally:
        kwait.delete(f"csr/{name}")
    assert user["username"] == name
    assert user["groups"] == ["testers", "system:authenticated"]


def _approve(kwait: Kwait, name: str) -> None:
    condition = {"type": "Approved", "status": "True", "reason": "Test", "message": "by a test"}
    body = {"status": {"conditions": [condition]}}
    api = CertificatesV1Api(kwait.client)
    api.patch_certificate_signing_request_approval(name, body)


def _who_am_i(kwait: Kwait, files: tuple[Path, Path]) -> dict[str, Any]:
    """Return the user that the server authenticates by a certificate."""
    configuration = kwait.client.configuration
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    context.load_cert_chain(*files)
    connection = HTTPSConnection(urlsplit(configuration.host).netloc, context=context, timeout=30)
    try:
        headers = {"Content-Type": "application/json"}
        path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        connection.request("POST", path, json.dumps(REVIEW), headers)
        answer = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    user: dict[str, Any] = answer["status"]["userInfo"]
    return user
