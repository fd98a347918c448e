from __future__ import annotations

import base64

import pytest

from pytest_kwait.simulator.request_info import Caller
from tests.simulator.cluster import new_cluster
from tests.simulator.validation.field_causes import Obj, get_create_causes, get_update_causes

LEASES = "leases.coordination.k8s.io"
NEWER = "events.events.k8s.io"
FROZEN = "Forbidden: field is immutable when `immutable` is set"
HIDDEN = '"<secret contents redacted>"'
KEY = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name', "
    " or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)


@pytest.mark.parametrize(
    ("obj", "texts"),
    [
        ({"data": {"a b": "c"}}, [f'data[a b]: Invalid value: "a b": {KEY}']),
        ({"data": {"..": "c"}}, ["data[..]: Invalid value: \"..\": must not be '..'"]),
        (
            {"data": {"a": "b"}, "binaryData": {"a": "Yg=="}},
            ['data[a]: Invalid value: "a": duplicate of key present in binaryData'],
        ),
        (
            {"data": {"a": "x" * (1 << 20), "b": "x"}},
            ["[]: Too long: may not be more than 1048576 bytes"],
        ),
        ({"data": {"a": "x" * (1 << 20)}}, []),
    ],
)
def test_config_maps(obj: Obj, texts: list[str]) -> None:
    assert get_create_causes(new_cluster(), "configmaps", obj) == texts


@pytest.mark.parametrize(
    ("kind", "texts", "refusals"),
    [
        ("tls", {}, ["data[tls.crt]: Required value", "data[tls.key]: Required value"]),
        ("dockercfg", {}, ["data[.dockercfg]: Required value"]),
        (
            "dockercfg",
            {".dockercfg": "x"},
            [
                f"data[.dockercfg]: Invalid value: {HIDDEN}: invalid character 'x' looking for "
                "beginning of value"
            ],
        ),
        (
            "dockerconfigjson",
            {".dockerconfigjson": "[]"},
            [
                f"data[.dockerconfigjson]: Invalid value: {HIDDEN}: json: cannot unmarshal array "
                "into Go value of type map[string]interface {}"
            ],
        ),
        (
            "dockerconfigjson",
            {".dockerconfigjson": "{"},
            [
                f"data[.dockerconfigjson]: Invalid value: {HIDDEN}: unexpected end of JSON input",
            ],
        ),
        ("dockerconfigjson", {".dockerconfigjson": "{}"}, []),
        ("basic-auth", {}, ["data[username]: Required value", "data[password]: Required value"]),
        ("basic-auth", {"password": ""}, []),
        ("ssh-auth", {"ssh-privatekey": ""}, ["data[ssh-privatekey]: Required value"]),
        (
            "service-account-token",
            {},
            ["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
        ),
    ],
)
def test_required_keys_of_secret_types(
    kind: str, texts: dict[str, str], refusals: list[str]
) -> None:
    obj = {"type": f"kubernetes.io/{kind}", "stringData": texts}
    assert get_create_causes(new_cluster(), "secrets", obj) == refusals


def test_size_limit_of_secrets() -> None:
    data = {"a": base64.b64encode(b"x" * ((1 << 20) + 1)).decode()}
    assert get_create_causes(new_cluster(), "secrets", {"data": data}) == [
        "data: Too long: may not be more than 1048576 bytes"
    ]


def test_immutable_config_maps_and_secrets() -> None:
    api = new_cluster()
    body = {"metadata": {"name": "a"}, "immutable": True, "data": {"a": "Yg=="}}
    for resource, extra in (("configmaps", []), ("secrets", ["type: Invalid value: "])):
        old = api.create(resource, body, "default")
        change: Obj = {"data": {"a": "Yw=="}, "immutable": False}
        if resource == "secrets":
            change["type"] = "x"
        texts = get_update_causes(api, resource, old, change)
        assert texts == [
            *(f'{text}"x": field is immutable' for text in extra),
            f"immutable: {FROZEN}",
            f"data: {FROZEN}",
        ]


def test_an_invalid_certificate_in_a_secret_is_warned_of() -> None:
    for certificate, text in (
        ("a", "tls: failed to find any PEM data in certificate input"),
        (
            "-----BEGIN X-----\nYg==\n-----END X-----\n",
            'tls: failed to find "CERTIFICATE" PEM block in certificate input after skipping PEM '
            "blocks of the following types: [X]",
        ),
    ):
        caller = Caller(dry_run=True)
        body: Obj = {"metadata": {"name": "a"}, "type": "kubernetes.io/tls"}
        body["stringData"] = {"tls.crt": certificate, "tls.key": "b"}
        new_cluster().create("secrets", body, "default", caller=caller)
        assert caller.warnings == [text]


def test_lease_numbers() -> None:
    spec = {"leaseDurationSeconds": 0, "leaseTransitions": -1}
    assert get_create_causes(new_cluster(), LEASES, {"spec": spec}) == [
        "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
        "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
    ]


def new_event(**fields: object) -> Obj:
    return {
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "a.example/c",
        "reportingInstance": "i",
        "action": "a",
        "reason": "r",
        "type": "Normal",
        "regarding": {"namespace": "default"},
        **fields,
    }


@pytest.mark.parametrize(
    ("fields", "texts"),
    [
        ({}, []),
        ({"type": "Odd"}, ['type: Invalid value: "": has invalid value: Odd']),
        ({"eventTime": None}, ["eventTime: Required value"]),
        ({"action": "a" * 129}, ['action: Invalid value: "": can have at most 128 characters']),
        ({"note": "a" * 1025}, ['message: Invalid value: "": can have at most 1024 characters']),
        (
            {"series": {"count": 1}},
            [
                'series.count: Invalid value: "": should be at least 2',
                "series.lastObservedTime: Required value",
            ],
        ),
        (
            {"deprecatedCount": 1, "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z"},
            [
                'firstTimestamp: Invalid value: "": needs to be unset',
                'count: Invalid value: "": needs to be unset',
            ],
        ),
    ],
)
def test_events_v1_events(fields: Obj, texts: list[str]) -> None:
    assert get_create_causes(new_cluster(), NEWER, new_event(**fields)) == texts


def test_core_events_are_in_the_namespace_of_their_object() -> None:
    about = {"involvedObject": {"namespace": "other"}}
    assert get_create_causes(new_cluster(), "events", about) == [
        'involvedObject.namespace: Invalid value: "other": does not match event.namespace'
    ]
    assert (
        get_create_causes(new_cluster(), "events", {"involvedObject": {"namespace": "default"}})
        == []
    )
    assert get_create_causes(new_cluster(), "events", {"involvedObject": {}}) == []


def test_only_the_series_of_an_events_v1_event_is_mutable() -> None:
    api = new_cluster()
    old = api.create(NEWER, {"metadata": {"name": "e"}, **new_event()}, "default")
    change = {**new_event(reason="x", regarding={"namespace": "default", "name": "n"})}
    assert get_update_causes(api, NEWER, old, change) == [
        'involvedObject: Invalid value: {"Kind":"","Namespace":"default","Name":"n","UID":"",'
        '"APIVersion":"","ResourceVersion":"","FieldPath":""}: field is immutable',
        'reason: Invalid value: "x": field is immutable',
        'reason: Invalid value: "x": field is immutable',
    ]
