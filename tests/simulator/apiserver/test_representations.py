"""Responses in other forms than JSON objects, and malformed bodies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.simulator.apiserver.conftest import Served

MAPS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
NO_OBJECT = (
    "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type "
    'struct {{ APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string '
    '"json:\\"kind,omitempty\\"" }}'
)


def test_table_rows_include_objects_on_request(served: Served) -> None:
    answer = served.json("GET", f"{MAPS}?includeObject=Nope", Accept=TABLE)
    assert (answer["code"], answer["message"]) == (
        400,
        'Unable to convert to Table as requested: includeObject: Invalid value: "Nope": must be '
        "'Metadata', 'Object', 'None', or empty",
    )
    assert served.send("GET", f"{MAPS}?watch=1&includeObject=Nope", Accept=TABLE).status == 400


def test_tables_have_the_requested_version(served: Served) -> None:
    shown = served.json("GET", MAPS, Accept=TABLE.replace("v=v1", "v=v1beta1"))
    assert shown["apiVersion"] == "meta.k8s.io/v1beta1"


def test_partial_metadata_form_must_fit_lists_or_objects(served: Served) -> None:
    answer = served.json("GET", MAPS, Accept=PARTIAL)
    assert answer["code"] == 406
    assert answer["message"] == (
        "you requested PartialObjectMetadata, but the requested object is a list "
        "(*core.ConfigMapList)"
    )
    lists = PARTIAL.replace("Metadata", "MetadataList")
    answer = served.json("POST", MAPS, {"metadata": {"name": "a"}}, Accept=lists)
    assert answer["message"] == (
        "you requested PartialObjectMetadataList, but the requested object is not a list "
        "(*core.ConfigMap)"
    )
    assert list(served.watch(f"{MAPS}?watch=1&timeoutSeconds=1", Accept=lists)) == []


def test_errors_are_served_in_yaml(served: Served) -> None:
    answer = served.send("GET", f"{MAPS}/none", Accept="application/yaml")
    assert answer.headers["Content-Type"] == "application/yaml"
    assert answer.data.startswith(b"apiVersion: v1\ncode: 404\ndetails:\n")


def test_unsupported_form_is_rejected_before_any_write(served: Served) -> None:
    served.json("POST", MAPS, {"metadata": {"name": "a"}})
    answer = served.send("DELETE", f"{MAPS}/a", Accept="text/html")
    assert answer.status == 406
    assert served.send("GET", f"{MAPS}/a").status == 200


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"[]", NO_OBJECT.format("array") + " (5b5d)"),
        (
            b"nope",
            "couldn't get version/kind; json parse error: invalid character 'o' in literal null "
            "(expecting 'u') (6e6f7065)",
        ),
        (
            b'{"kind":1}',
            "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go "
            'struct field .kind of type string ({"kind":1})',
        ),
        (
            b'{"apiVersion":"a/b/c","kind":"ConfigMap"}',
            'unexpected GroupVersion string: a/b/c ({"apiVersion":"a/b/c","kind":" ...)',
        ),
    ],
)
def test_body_without_an_object_is_quoted_in_the_error(
    served: Served, body: bytes, message: str
) -> None:
    answer = served.json("POST", MAPS, body)
    assert answer["message"] == (
        f"the object provided is unrecognized (must be of type ConfigMap): {message}"
    )


@pytest.mark.parametrize(
    ("version", "kind", "why"),
    [
        ("v1", "Secret", "converting (v1.Secret) to (core.ConfigMap): unknown conversion"),
        (
            "apps/v1",
            "Deployment",
            "converting (v1.Deployment) to (core.ConfigMap): unknown conversion",
        ),
        (
            "v1",
            "Nope",
            'no kind "Nope" is registered for version "v1" in scheme "pkg/runtime/scheme.go:111"',
        ),
    ],
)
def test_body_of_another_kind_is_rejected(
    served: Served, version: str, kind: str, why: str
) -> None:
    answer = served.json("POST", MAPS, {"apiVersion": version, "kind": kind})
    assert answer["message"] == (f'{kind} in version "v1" cannot be handled as a ConfigMap: {why}')


@pytest.mark.parametrize(
    ("path", "version", "kind", "message"),
    [
        (
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
            "policy/v1beta1",
            "PodDisruptionBudget",
            "the API version in the data (policy/v1beta1) does not match the expected API version "
            "(policy/v1)",
        ),
        (
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            "apiextensions.k8s.io/v1beta1",
            "CustomResourceDefinition",
            "the API version in the data (apiextensions.k8s.io/v1beta1) does not match the "
            "expected API version (apiextensions.k8s.io/v1)",
        ),
        (
            "/apis/apps/v1/namespaces/default/deployments",
            "extensions/v1beta1",
            "Ingress",
            'Ingress in version "v1beta1" cannot be handled as a Deployment: converting '
            "(v1beta1.Ingress) to (apps.Deployment): unknown conversion",
        ),
        (
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            "v1",
            "Pod",
            'Pod in version "v1" cannot be handled as a CustomResourceDefinition: no kind "Pod" '
            'is registered for version "v1" in scheme "pkg/runtime/scheme.go:111"',
        ),
        (
            "/apis/apps/v1/namespaces/default/deployments",
            "apps/v9",
            "Deployment",
            'Deployment in version "v9" cannot be handled as a Deployment: no kind "Deployment" '
            'is registered for version "apps/v9" in scheme "pkg/runtime/scheme.go:111"',
        ),
    ],
)
def test_body_in_a_version_that_is_not_served_is_rejected(
    served: Served, path: str, version: str, kind: str, message: str
) -> None:
    answer = served.json("POST", path, {"apiVersion": version, "kind": kind})
    assert (answer["code"], answer["message"]) == (400, message)


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (b"[]", 400, NO_OBJECT.format("array")),
        (
            b'{"kind":"ConfigMap"}',
            400,
            'no kind "ConfigMap" is registered for version "v1" in scheme '
            '"pkg/runtime/scheme.go:111"',
        ),
        (
            b'{"gracePeriodSeconds":"5"}',
            400,
            "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds "
            "of type int64",
        ),
        (
            b'{"dryRun":["Nope"]}',
            422,
            'DeleteOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Nope"]: '
            'supported values: "All"',
        ),
        (
            b'{"propagationPolicy":"Nope"}',
            422,
            'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: '
            '"Nope": supported values: "Foreground", "Background", "Orphan", "nil"',
        ),
    ],
)
def test_delete_options_are_validated_before_the_lookup(
    served: Served, body: bytes, code: int, message: str
) -> None:
    answer = served.json("DELETE", f"{MAPS}/none", body)
    assert (answer["code"], answer["message"]) == (code, message)


def test_update_requires_the_objects_name(served: Served) -> None:
    served.json("POST", MAPS, {"metadata": {"name": "a"}})
    answer = served.json("PUT", f"{MAPS}/a", {"metadata": {}})
    assert answer["message"] == (
        "the name of the object (a based on URL) was undeterminable: name must be provided"
    )
    zero = {"metadata": {"name": "a", "resourceVersion": "0", "labels": {"x": "y"}}}
    assert served.send("PUT", f"{MAPS}/a", zero).status == 200


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("dryRun=", 'dryRun: Unsupported value: [""]: supported values: "All"'),
        (
            "dryRun=All&dryRun=x",
            'dryRun: Unsupported value: ["All","x"]: supported values: "All"',
        ),
        (f"fieldManager={'x' * 129}", "fieldManager: Too long: may not be more than 128 bytes"),
        (
            "fieldManager=a%00",
            'fieldManager: Invalid value: "a\\x00": invalid character U+0000 (at position 1)',
        ),
    ],
)
def test_write_options_are_validated(served: Served, query: str, message: str) -> None:
    answer = served.json("POST", f"{MAPS}?{query}", {"metadata": {"name": "a"}})
    assert answer["message"] == f'CreateOptions.meta.k8s.io "" is invalid: {message}'


def test_watch_of_a_future_version_is_an_error(served: Served) -> None:
    query = "watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    events = list(served.watch(f"{MAPS}?{query}&resourceVersion=99999"))
    assert [event["object"]["reason"] for event in events] == ["Timeout"]


def test_pending_deletion_is_accepted(served: Served) -> None:
    meta = {"name": "a", "finalizers": ["example.com/x"]}
    served.json("POST", MAPS, {"metadata": meta})
    assert served.send("DELETE", f"{MAPS}/a?orphanDependents=true&dryRun=All").status == 200
    assert served.send("DELETE", f"{MAPS}/a?orphanDependents=false").status == 202
    served.json("POST", MAPS, {"metadata": {"name": "b"}})
    assert served.send("DELETE", f"{MAPS}/b?orphanDependents=false").status == 200


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            b"[]",
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot "
            "unmarshal array into Go value of type map[string]interface {}",
        ),
        (b"apiVersion: v1\nkind: Secret\n", "invalid object type: /v1, Kind=Secret"),
        (
            b"apiVersion: apps/v1\nkind: ConfigMap\n",
            "Incorrect version specified in apply patch. Specified patch version: apps/v1, "
            "expected: v1",
        ),
    ],
)
def test_apply_rejects_another_kind(served: Served, body: bytes, message: str) -> None:
    path = f"{MAPS}/a?fieldManager=m"
    answer = served.json("PATCH", path, body, Content_Type="application/apply-patch+yaml")
    assert (answer["code"], answer["message"]) == (400, message)


def test_apply_rejects_another_uid(served: Served) -> None:
    served.json("POST", MAPS, {"metadata": {"name": "a"}})
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {uid: x}\n"
    path = f"{MAPS}/a?fieldManager=m"
    answer = served.json("PATCH", path, body, Content_Type="application/apply-patch+yaml")
    assert answer["message"] == (
        'ConfigMap "a" is invalid: metadata.uid: Invalid value: "x": field is immutable'
    )


def test_conflict_names_the_storage_key(served: Served) -> None:
    path = "/apis/networking.k8s.io/v1/namespaces/default/ingresses"
    backend = {"service": {"name": "s", "port": {"number": 80}}}
    ingress = {"metadata": {"name": "i"}, "spec": {"defaultBackend": backend}}
    served.json("POST", path, ingress)
    other = {**ingress, "metadata": {"name": "i", "uid": "x"}}
    assert "Key: /registry/ingress/default/i," in served.json("PUT", f"{path}/i", other)["message"]
    dry = served.json("PUT", f"{path}/i?dryRun=All", other)
    assert "Key: /ingress/default/i," in dry["message"]


def test_only_compact_json_ends_with_a_newline(served: Served) -> None:
    for path in ("/api/v1/namespaces", "/api/v1/namespaces/default", "/apis", "/api/v1/nodes/x"):
        assert served.send("GET", path).data.endswith(b"}\n")
        indented = served.send("GET", f"{path}?pretty=1").data
        assert (indented[:5], indented[-2:]) == (b'{\n  "', b"\n}")
    for path in ("/version", "/version?pretty=0"):
        version = served.send("GET", path, User_Agent="me").data
        assert (version[:5], version[-2:]) == (b'{\n  "', b"\n}")


def test_who_gets_indented_json(served: Served) -> None:
    spaces = "/api/v1/namespaces"
    aggregated = {"Accept": AGGREGATED}
    for path, headers, indented in (
        (f"{spaces}?pretty=yes", {}, False),
        (f"{spaces}?pretty=T", {}, True),
        (f"{spaces}?pretty=yes", {"User_Agent": "curl/8"}, False),
        (spaces, {"Accept": "application/json;pretty=1"}, True),
        (spaces, {"Accept": "application/json;pretty=true"}, False),
        (f"{spaces}/none", {"Accept": TABLE}, True),
        (f"{spaces}/none?pretty=0", {"Accept": "text/html"}, True),
        ("/apis", aggregated, False),
        ("/apis?pretty=1", aggregated, True),
    ):
        data = served.send("GET", path, **headers).data
        wanted = (b"{\n", b"\n}") if indented else (b'{"', b"}\n")
        assert (path, headers, data[:2], data[-2:]) == (path, headers, *wanted)


def test_documents_of_tokens_have_one_media_type(served: Served) -> None:
    for path, media in (
        ("/openid/v1/jwks", "application/jwk-set+json"),
        ("/.well-known/openid-configuration", "application/json"),
    ):
        assert served.send("GET", path, Accept=media).status == 200
        refused = served.json("GET", path, Accept="text/html")
        why = f"406: Not Acceptable\n\nAvailable representations: {media}"
        assert (refused["code"], refused["message"]) == (406, why)


def test_a_new_object_may_have_what_is_no_revision(served: Served) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    for number, revision in enumerate(("v1", "-3", "0", "000")):
        body = {"metadata": {"name": f"a{number}", "resourceVersion": revision}}
        assert served.json("POST", path, body)["metadata"]["resourceVersion"].isdigit()
    body = {"metadata": {"name": "b", "resourceVersion": "7"}}
    assert served.send("POST", path, body).status == 500


def test_a_new_pod_keeps_the_quality_sent(served: Served) -> None:
    body = {
        "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "c", "image": "x:1"}]},
        "status": {"qosClass": "Guaranteed", "phase": "Running"},
    }
    made = served.json("POST", "/api/v1/namespaces/default/pods", body)
    assert made["status"] == {"phase": "Pending", "qosClass": "Guaranteed"}


@pytest.mark.parametrize(
    ("metadata", "status"),
    [({"name": None}, 400), ({"name": ""}, 400), ({"name": "a", "namespace": None}, 201)],
)
def test_null_is_no_name_of_an_applied_object(
    served: Served, metadata: dict[str, Any], status: int
) -> None:
    path = "/api/v1/namespaces/default/configmaps/a?fieldManager=m"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    answer = served.send("PATCH", path, body, Content_Type="application/apply-patch+yaml")
    assert answer.status == status
    if status == 400:
        assert answer.json()["message"] == (
            "the name of the object (a based on URL) was undeterminable: name must be provided"
        )
