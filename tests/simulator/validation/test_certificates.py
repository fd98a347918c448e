from __future__ import annotations

import base64

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from pytest_kwait.simulator.request_info import Caller
from tests.simulator.cluster import new_cluster
from tests.simulator.validation.field_causes import Obj, get_create_causes

REQUESTS = "certificatesigningrequests.certificates.k8s.io"
SERVICES = "apiservices.apiregistration.k8s.io"


def request() -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    made = x509.CertificateSigningRequestBuilder(x509.Name([])).sign(key, hashes.SHA256())
    return base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()


def request_spec(**fields: object) -> Obj:
    usages = ["client auth"]
    return {"request": request(), "signerName": "a.example/b", "usages": usages, **fields}


@pytest.mark.parametrize(
    ("fields", "texts"),
    [
        ({}, []),
        (
            {"request": "Yg=="},
            [
                'spec.request: Invalid value: "Yg==": PEM block type must be CERTIFICATE REQUEST',
            ],
        ),
        ({"usages": []}, ["spec.usages: Required value"]),
        (
            {"usages": ["any", "any"]},
            ['spec.usages[1]: Duplicate value: "any"'],
        ),
        ({"signerName": ""}, ["spec.signerName: Required value"]),
        (
            {"signerName": "a"},
            [
                'spec.signerName: Invalid value: "a": must be a fully qualified domain and path of '
                "the form 'example.com/signer-name'"
            ],
        ),
        (
            {"signerName": "a/b"},
            [
                'spec.signerName: Invalid value: "a": should be a domain with at least two '
                "segments separated by dots"
            ],
        ),
        (
            {"signerName": "kubernetes.io/legacy-unknown"},
            [
                'spec.signerName: Invalid value: "kubernetes.io/legacy-unknown": the legacy '
                "signerName is not allowed via this API version"
            ],
        ),
        (
            {"expirationSeconds": 5},
            [
                "spec.expirationSeconds: Invalid value: 5: may not specify a duration less than "
                "600 seconds (10 minutes)"
            ],
        ),
    ],
)
def test_certificate_requests(fields: Obj, texts: list[str]) -> None:
    assert get_create_causes(new_cluster(), REQUESTS, {"spec": request_spec(**fields)}) == texts


def test_a_certificate_request_records_its_user() -> None:
    caller = Caller(user="jane", groups=("team",), uid="1", extra={"a": ("b",)})
    body = {"metadata": {"name": "A:b"}, "spec": request_spec(username="another user")}
    made = new_cluster().create(REQUESTS, body, caller=caller)
    told = {field: made["spec"][field] for field in ("username", "groups", "uid", "extra")}
    assert told == {"username": "jane", "groups": ["team"], "uid": "1", "extra": {"a": ["b"]}}


def test_the_spec_of_a_certificate_request_is_immutable() -> None:
    api = new_cluster()
    old = api.create(REQUESTS, {"metadata": {"name": "a"}, "spec": request_spec()})
    new = {**old, "spec": {**old["spec"], "usages": ["any"]}}
    assert api.update(REQUESTS, new, caller=Caller())["spec"] == old["spec"]


@pytest.mark.parametrize(
    ("fields", "texts"),
    [
        ({}, []),
        (
            {"group": "b.example"},
            [
                'metadata.name: Invalid value: "v1.a.example": must be '
                '`spec.version+"."+spec.group`: "v1.b.example"'
            ],
        ),
        (
            {"versionPriority": 2000},
            [
                "spec.versionPriority: Invalid value: 2000: must be positive and less than 1000",
            ],
        ),
        (
            {"service": {"name": "s", "namespace": "", "port": 0}},
            [
                "spec.service.namespace: Required value",
                "spec.service.port: Invalid value: 0: port is not valid: must be between 1 and "
                "65535, inclusive",
            ],
        ),
        (
            {"insecureSkipTLSVerify": True},
            [
                "spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have "
                "insecureSkipTLSVerify"
            ],
        ),
    ],
)
def test_api_services(fields: Obj, texts: list[str]) -> None:
    body = {"group": "a.example", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}
    found = {"metadata": {"name": "v1.a.example"}, "spec": {**body, **fields}}
    assert get_create_causes(new_cluster(), SERVICES, found) == texts
