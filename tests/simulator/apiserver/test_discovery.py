from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

from tests.simulator.apiserver.conftest import ADMIN

if TYPE_CHECKING:
    from tests.simulator.apiserver.conftest import Served

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
CRD = {
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing", "shortNames": ["th"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }
        ],
    },
}
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def test_discovery_lists_resources_with_names_and_verbs(served: Served) -> None:
    listed = served.json("GET", "/apis/batch/v1")
    jobs = next(one for one in listed["resources"] if one["name"] == "jobs")
    assert jobs["singularName"] == "job"
    assert jobs["namespaced"] is True
    assert jobs["categories"] == ["all"]
    assert "watch" in jobs["verbs"]
    status = next(one for one in listed["resources"] if one["name"] == "jobs/status")
    assert status["verbs"] == ["get", "patch", "update"]


def test_discovery_ignores_trailing_slashes(served: Served) -> None:
    assert served.json("GET", "/version/")["major"] == "1"
    assert served.json("GET", "/api/")["versions"] == ["v1"]
    assert served.json("GET", "/apis/")["kind"] == "APIGroupList"


def test_discovery_follows_custom_kinds(served: Served) -> None:
    def groups() -> list[str]:
        return [group["name"] for group in served.json("GET", "/apis")["groups"]]

    served.json("POST", CRDS, CRD)
    assert "example.com" in groups()
    listed = served.json("GET", "/apis/example.com/v1")
    assert [one["name"] for one in listed["resources"]] == ["things"]
    assert listed["resources"][0]["shortNames"] == ["th"]
    served.json("DELETE", f"{CRDS}/things.example.com")
    assert "example.com" not in groups()


def test_aggregated_discovery_etag_changes_with_the_kinds(served: Served) -> None:
    first = served.send("GET", "/apis", Accept=AGGREGATED)
    assert first.headers["Content-Type"] == AGGREGATED
    tag = first.headers["ETag"]
    assert served.send("GET", "/apis", Accept=AGGREGATED, If_None_Match=tag).status == 304
    served.json("POST", CRDS, CRD)
    second = served.send("GET", "/apis", Accept=AGGREGATED, If_None_Match=tag)
    assert second.status == 200
    assert [group["metadata"].get("name") for group in second.json()["items"]][-1] == "example.com"


def test_aggregated_discovery_of_the_core_group(served: Served) -> None:
    body = served.json("GET", "/api", Accept=AGGREGATED)
    resources = body["items"][0]["versions"][0]["resources"]
    pods = next(one for one in resources if one["resource"] == "pods")
    assert {one["subresource"] for one in pods["subresources"]} >= {"status", "log", "binding"}


def test_openapi_has_the_parts_that_kubectl_reads(served: Served) -> None:
    index = served.json("GET", "/openapi/v3")["paths"]
    url = index["apis/apps/v1"]["serverRelativeURL"]
    document = served.json("GET", url)
    patch = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert "fieldValidation" in [parameter["name"] for parameter in patch["parameters"]]
    assert patch["x-kubernetes-group-version-kind"] == {
        "group": "apps",
        "kind": "Deployment",
        "version": "v1",
    }
    assert "application/strategic-merge-patch+json" in patch["requestBody"]["content"]
    schemas = document["components"]["schemas"]
    assert "io.k8s.api.core.v1.PodSpec" in schemas


def test_openapi_shows_custom_kinds(served: Served) -> None:
    served.json("POST", CRDS, CRD)
    document = served.json("GET", "/openapi/v3/apis/example.com/v1")
    schemas = document["components"]["schemas"]
    assert schemas["com.example.v1.Thing"]["x-kubernetes-group-version-kind"] == [
        {"group": "example.com", "kind": "Thing", "version": "v1"}
    ]
    assert list(schemas["com.example.v1.Thing"]["properties"]) == ["apiVersion", "kind", "metadata"]
    assert "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta" in schemas
    definitions = served.json("GET", "/openapi/v2")["definitions"]
    assert definitions["com.example.v1.Thing"]["properties"]["metadata"] == {
        "$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    }


def test_version_2_says_nothing_of_custom_kinds_that_preserve_fields(served: Served) -> None:
    body: Any = copy.deepcopy(CRD)
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    body["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema
    served.json("POST", CRDS, body)
    gvk = [{"group": "example.com", "kind": "Thing", "version": "v1"}]
    assert served.json("GET", "/openapi/v2")["definitions"]["com.example.v1.Thing"] == {
        "type": "object",
        "x-kubernetes-group-version-kind": gvk,
    }


def test_openapi_has_every_kind(served: Served) -> None:
    index = served.json("GET", "/openapi/v3")["paths"]
    for group, version in served.api.kinds.group_versions():
        name = f"apis/{group}/{version}" if group else f"api/{version}"
        document = served.json("GET", index[name]["serverRelativeURL"])
        known = {
            (kind["group"], kind["version"], kind["kind"])
            for schema in document["components"]["schemas"].values()
            for kind in schema.get("x-kubernetes-group-version-kind", ())
        }
        for kind in (served.api.kinds.served(group, version) or {}).values():
            assert (kind.group, kind.version, kind.kind) in known


def test_openapi_wraps_references_with_siblings_in_all_of(served: Served) -> None:
    document = served.json("GET", "/openapi/v3/apis/apps/v1")
    spec = document["components"]["schemas"]["io.k8s.api.apps.v1.DeploymentSpec"]
    template = "#/components/schemas/io.k8s.api.core.v1.PodTemplateSpec"
    assert spec["properties"]["template"] == {"default": {}, "allOf": [{"$ref": template}]}


def test_openapi_document_with_hash_is_cacheable(served: Served) -> None:
    url = served.json("GET", "/openapi/v3")["paths"]["version"]["serverRelativeURL"]
    tag = url.partition("?hash=")[2]
    answer = served.send("GET", url)
    assert answer.headers["Cache-Control"] == "public, immutable"
    assert answer.headers["ETag"] == f'"{tag}"'
    assert "Expires" in answer.headers
    plain = served.send("GET", "/openapi/v3/version")
    assert plain.headers["Cache-Control"] == "no-cache, private"
    assert plain.data == answer.data
    assert served.send("GET", url, If_None_Match=f'"{tag}"').status == 304


def test_openapi_redirects_an_outdated_hash(served: Served) -> None:
    url = served.json("GET", "/openapi/v3")["paths"]["version"]["serverRelativeURL"]
    answer = served.pool.request(
        "GET",
        f"http://127.0.0.1:{served.port}/openapi/v3/version?hash=old",
        headers={"Authorization": f"Bearer {ADMIN}"},
        redirect=False,
    )
    assert (answer.status, answer.headers["Location"]) == (301, url)


@pytest.mark.parametrize(
    ("path", "accept", "status"),
    [
        ("/openapi/v3/apis/nope/v1", "*/*", 404),
        ("/openapi/v3/version", "text/plain", 406),
        ("/openapi/v3/version", "text/plain, application/json;q=0.9", 200),
        ("/openapi/v2", "application/vnd.kubernetes.protobuf", 406),
    ],
)
def test_openapi_documents_are_json(served: Served, path: str, accept: str, status: int) -> None:
    assert served.send("GET", path, Accept=accept).status == status


def test_openapi_v2_has_every_type(served: Served) -> None:
    answer = served.send("GET", "/openapi/v2")
    document = answer.json()
    assert document["swagger"] == "2.0"
    assert document["definitions"]["io.k8s.apimachinery.pkg.util.intstr.IntOrString"] == {
        "type": "string",
        "format": "int-or-string",
    }
    pods = document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]
    assert pods["patch"]["consumes"][-1] == "application/apply-patch+yaml"
    assert served.send("GET", "/openapi/v2", If_None_Match=answer.headers["ETag"]).status == 304


def test_discovery_shows_response_kinds_that_differ(served: Served) -> None:
    body = served.json("GET", "/apis", Accept=AGGREGATED)
    apps = next(one for one in body["items"] if one["metadata"]["name"] == "apps")
    deployments = next(
        one for one in apps["versions"][0]["resources"] if one["resource"] == "deployments"
    )
    assert deployments["responseKind"] == {"group": "", "version": "", "kind": "Deployment"}
    scale = next(one for one in deployments["subresources"] if one["subresource"] == "scale")
    assert scale["responseKind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}


def test_openapi_v2_is_served_in_protobuf(served: Served) -> None:
    form = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    served.json("POST", CRDS, CRD)
    answer = served.send("GET", "/openapi/v2", Accept=f"{form},application/json")
    assert answer.headers["Content-Type"] == form.replace("@", ".")
    assert answer.data.startswith(b"\x0a\x032.0")
    assert b"com.example.v1.Thing" in answer.data
    tag = answer.headers["ETag"]
    assert served.send("GET", "/openapi/v2", Accept=form, If_None_Match=tag).status == 304
    assert served.send("GET", "/openapi/v2").headers["ETag"] == tag
