"""Bytes of responses, and bodies that decoders read in their own ways, as on a real server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tools.raw_api import RawClient

if TYPE_CHECKING:
    from pytest_kwait import Kwait
    from pytest_kwait.clusters import Cluster

_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_APPLY = "application/apply-patch+yaml"
_NO_NAME = "the name of the object (a based on URL) was undeterminable: name must be provided"
_SURROGATE = "found invalid Unicode character escape code"


@pytest.fixture
def server(kwait_cluster: Cluster) -> RawClient:
    """The API server."""
    return RawClient(kwait_cluster.kubeconfig)


@pytest.mark.parametrize(
    "path", ["/api", "/apis", "/api/v1", "/api/v1/namespaces", "/api/v1/namespaces/nothing"]
)
def test_compact_json_ends_with_a_newline_and_indented_json_does_not(
    server: RawClient, path: str
) -> None:
    """Of objects, lists, discovery and errors."""
    compact = server.request("GET", path)
    assert (compact.data[:2], compact.data[-2:]) == (b'{"', b"}\n")
    indented = server.request("GET", f"{path}?pretty=true")
    assert (indented.data[:5], indented.data[-2:]) == (b'{\n  "', b"\n}")


@pytest.mark.parametrize(
    ("query", "headers", "indented"),
    [
        ("pretty=1", {}, True),
        ("pretty=T", {}, True),
        ("pretty=0", {}, False),
        ("pretty=yes", {}, False),
        ("pretty=", {"User-Agent": "curl/8.0"}, True),
        ("", {"User-Agent": "Mozilla/5.0 x"}, True),
        ("", {"User-Agent": "Wget/1"}, True),
        ("", {"User-Agent": "xcurl/1"}, False),
        ("pretty=false", {"User-Agent": "curl/8.0"}, False),
        ("pretty=yes", {"User-Agent": "curl/8.0"}, False),
        ("", {"Accept": "application/json;pretty=1"}, True),
        ("", {"Accept": "application/json;pretty=true"}, False),
        ("pretty=false", {"Accept": "application/json;pretty=1"}, True),
        ("", {"Accept": _TABLE}, False),
        ("pretty=true", {"Accept": _TABLE}, True),
        ("", {"Accept": f"{_TABLE}, application/json"}, False),
        ("pretty=1", {"Accept": _AGGREGATED}, True),
        ("", {"Accept": _AGGREGATED}, False),
    ],
)
def test_who_gets_indented_json(
    server: RawClient, query: str, headers: dict[str, str], indented: bool
) -> None:
    """By the query first, then by the client; an Accept header may ask for it, too."""
    accept = headers.get("Accept", "")
    path = "/apis" if accept == _AGGREGATED else "/api/v1/namespaces"
    data = server.request("GET", f"{path}?{query}", headers=headers).data
    assert (data[:2], data[-2:]) == ((b"{\n", b"\n}") if indented else (b'{"', b"}\n"))


@pytest.mark.parametrize("accept", [_TABLE, "text/html", _AGGREGATED])
def test_errors_are_indented_where_no_accepted_form_is_one_of_errors(
    server: RawClient, accept: str
) -> None:
    """Whatever else the client asks for."""
    for query in ("", "?pretty=false"):
        path = f"/api/v1/namespaces/nothing{query}"
        data = server.request("GET", path, headers={"Accept": accept}).data
        assert (data[:5], data[-2:]) == (b'{\n  "', b"\n}")


@pytest.mark.parametrize(
    ("path", "media"),
    [
        ("/openid/v1/jwks", "application/jwk-set+json"),
        ("/.well-known/openid-configuration", "application/json"),
    ],
)
def test_documents_of_tokens_have_one_media_type(server: RawClient, path: str, media: str) -> None:
    """And no newline at their end."""
    for accept in (media, "*/*"):
        answer = server.request("GET", path, headers={"Accept": accept})
        assert (answer.status, answer.headers["Content-Type"]) == (200, media)
        assert answer.data[-1:] == b"}"
    for accept in ("application/yaml", "text/html"):
        answer = server.request("GET", path, headers={"Accept": accept})
        assert answer.status == 406
        assert "406: Not Acceptable" in answer.text
        assert f"Available representations: {media}" in answer.text


def test_the_order_of_the_openapi_document(server: RawClient) -> None:
    """Of version 2."""
    document = server.request("GET", "/openapi/v2")
    assert document.data[-1:] == b"}"
    parts = ["swagger", "info", "paths", "definitions", "parameters"]
    assert list(document.body) == [*parts, "securityDefinitions", "security"]


@pytest.mark.parametrize("query", ["", "?pretty=false", "?pretty=true"])
def test_the_version_is_always_indented(server: RawClient, query: str) -> None:
    """Whatever the client asks for."""
    data = server.request("GET", f"/version{query}").data
    assert (data[:5], data[-2:]) == (b'{\n  "', b"\n}")


@pytest.mark.parametrize(
    ("revision", "status"), [("v1", 201), ("-3", 201), ("0", 201), ("7", 500), ("007", 500)]
)
def test_a_new_object_may_have_what_is_no_revision(
    server: RawClient, kwait: Kwait, revision: str, status: int
) -> None:
    """As its resourceVersion."""
    path = f"/api/v1/namespaces/{kwait.namespace}/configmaps"
    body = {"metadata": {"name": "a", "resourceVersion": revision}}
    answer = server.request("POST", path, body)
    assert answer.status == status
    if status == 500:
        text = "resourceVersion should not be set on objects to be created"
        assert answer.body["message"] == text
    else:
        assert answer.body["metadata"]["resourceVersion"] != revision


def test_an_applied_new_object_needs_a_valid_revision(server: RawClient, kwait: Kwait) -> None:
    """If it has one."""
    path = f"/api/v1/namespaces/{kwait.namespace}/configmaps/a?fieldManager=m"
    answer = server.request("PATCH", path, _config_map(resourceVersion="v1"), content_type=_APPLY)
    assert (answer.status, answer.body["message"]) == (
        500,
        'strconv.ParseUint: parsing "v1": invalid syntax',
    )


def test_the_quality_of_a_new_pod_is_the_one_sent(server: RawClient, kwait: Kwait) -> None:
    """The rest of its status is not."""
    path = f"/api/v1/namespaces/{kwait.namespace}/pods?dryRun=All"
    body = {
        "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "c", "image": "x:1"}]},
        "status": {"qosClass": "Guaranteed", "phase": "Running", "podIP": "10.1.2.3"},
    }
    status = server.request("POST", path, body).body["status"]
    assert status == {"phase": "Pending", "qosClass": "Guaranteed"}


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"name": None}, _NO_NAME),
        ({"name": ""}, _NO_NAME),
        ({}, _NO_NAME),
        (None, _NO_NAME),
        (
            {"name": "b"},
            "the name of the object (b) does not match the name on the URL (a)",
        ),
        ({"name": "a", "namespace": None}, ""),
    ],
)
def test_names_of_applied_objects(
    server: RawClient, kwait: Kwait, metadata: dict[str, Any] | None, message: str
) -> None:
    """Null is as good as none."""
    path = f"/api/v1/namespaces/{kwait.namespace}/configmaps/a?fieldManager=m"
    body = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}).encode()
    answer = server.request("PATCH", path, body, content_type=_APPLY)
    assert (answer.status, answer.body.get("message", "")) == (400 if message else 201, message)


_BLOCK = 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: "\\ud83d\\ude00"}'
_FLOW = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"%s"}}'


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (_FLOW % r"\ud83d\ude00", f"yaml: {_SURROGATE}"),
        (_FLOW % r"\ud83d", f"yaml: {_SURROGATE}"),
        (_FLOW % r"a\\\uDE00", f"yaml: {_SURROGATE}"),
        (_FLOW % r"\/", "yaml: found unknown escape character"),
        (_BLOCK, f"yaml: line 4: {_SURROGATE}"),
        (_FLOW % r"\\ud83d \\/ \u00e9 😀", ""),
    ],
)
def test_yaml_knows_neither_surrogates_nor_escaped_slashes(
    server: RawClient, kwait: Kwait, body: str, why: str
) -> None:
    """An applied configuration is YAML, even if it is JSON."""
    objects = f"/api/v1/namespaces/{kwait.namespace}/configmaps"
    path = f"{objects}/a?fieldManager=m"
    applied = server.request("PATCH", path, body.encode(), content_type=_APPLY)
    if not why:
        assert applied.body["data"]["a"] == r"\ud83d \/ é 😀"
        return
    assert applied.status == 400
    assert applied.body["message"] == (f"error decoding YAML: error converting YAML to JSON: {why}")
    created = server.request("POST", objects, body.encode(), content_type="application/yaml")
    assert created.status == 400
    begin = "the object provided is unrecognized (must be of type ConfigMap)"
    assert created.body["message"].startswith(f"{begin}: {why} (")


def test_the_oldest_of_many_updates_have_one_manager(server: RawClient, kwait: Kwait) -> None:
    """From the eleventh on; what has no manager gets one at its first apply."""
    objects = f"/api/v1/namespaces/{kwait.namespace}/configmaps"
    created = {"metadata": {"name": "a"}, "data": {"m0": "1"}}
    server.request("POST", f"{objects}?fieldManager=m0", created)
    media = "application/merge-patch+json"
    for number in range(1, 12):
        patch = {"data": {f"m{number}": "1"}}
        path = f"{objects}/a?fieldManager=m{number}"
        answer = server.request("PATCH", path, patch, content_type=media)
    entries = answer.body["metadata"]["managedFields"]
    assert len(entries) == 10
    (ancient,) = [entry for entry in entries if entry["manager"] == "ancient-changes"]
    assert ancient["fieldsV1"]["f:data"].keys() >= {".", "f:m0"}

    server.request("POST", objects, {"metadata": {"name": "b"}})
    path = f"{objects}/b?fieldManager=m"
    changed = server.request("PATCH", path, {"data": {"a": "1"}}, content_type=media).body
    assert "managedFields" not in changed["metadata"]
    applied = {**_config_map(name="b"), "data": {"a": "2"}}
    refused = server.request("PATCH", path, applied, content_type=_APPLY)
    why = 'Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .data.a'
    assert (refused.status, refused.body["message"]) == (409, why)


def _config_map(**metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", **metadata}}


def test_what_was_given_empty_is_empty_in_messages(server: RawClient, kwait: Kwait) -> None:
    """Not null, as what was not given; the stored object has neither."""
    jobs = f"/apis/batch/v1/namespaces/{kwait.namespace}/jobs"
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "securityContext": {"supplementalGroups": [], "sysctls": []},
        "nodeSelector": {},
        "containers": [
            {
                "name": "c",
                "image": "x:1",
                "command": [],
                "resources": {"limits": {}},
                "securityContext": {"capabilities": {"drop": []}},
            }
        ],
    }
    body = {"metadata": {"name": "a"}, "spec": {"suspend": True, "template": {"spec": spec}}}
    created = server.request("POST", jobs, body)
    assert created.body["spec"]["template"]["spec"]["containers"][0]["securityContext"] == {
        "capabilities": {}
    }
    spec["containers"][0]["image"] = "y:1"
    message = server.request("PUT", f"{jobs}/a", body).body["message"]
    for text in (
        '"Command":[],"Args":null',
        '"Limits":{},"Requests":null,"Claims":null',
        '"Capabilities":{"Add":null,"Drop":[]}',
        '"SupplementalGroups":[]',
        '"Sysctls":[]',
        '"NodeSelector":{}',
    ):
        assert text in message
    patch = {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 7}}}}
    media = "application/merge-patch+json"
    message = server.request("PATCH", f"{jobs}/a", patch, content_type=media).body["message"]
    assert '"Capabilities":{"Add":null,"Drop":null}' in message


def test_an_empty_overhead_needs_a_runtime_class(server: RawClient, kwait: Kwait) -> None:
    """As any other overhead."""
    path = f"/api/v1/namespaces/{kwait.namespace}/pods"
    spec = {"overhead": {}, "containers": [{"name": "c", "image": "x:1"}]}
    answer = server.request("POST", path, {"metadata": {"name": "a"}, "spec": spec})
    assert (answer.status, answer.body["message"]) == (
        403,
        'pods "a" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass '
        "defined Overhead",
    )
