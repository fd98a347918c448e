from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulator.http.conftest import Served

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


def test_resources_are_listed_with_names_and_verbs(served: Served) -> None:
    listed = served.json("GET", "/apis/batch/v1")
    jobs = next(one for one in listed["resources"] if one["name"] == "jobs")
    assert jobs["singularName"] == "job"
    assert jobs["namespaced"] is True
    assert jobs["categories"] == ["all"]
    assert "watch" in jobs["verbs"]
    status = next(one for one in listed["resources"] if one["name"] == "jobs/status")
    assert status["verbs"] == ["get", "patch", "update"]


def test_trailing_slashes_do_not_matter(served: Served) -> None:
    assert served.json("GET", "/version/")["major"] == "1"
    assert served.json("GET", "/api/")["versions"] == ["v1"]
    assert served.json("GET", "/apis/")["kind"] == "APIGroupList"


def test_a_custom_kind_is_discovered_and_forgotten(served: Served) -> None:
    def groups() -> list[str]:
        return [group["name"] for group in served.json("GET", "/apis")["groups"]]

    served.json("POST", CRDS, CRD)
    assert "example.com" in groups()
    listed = served.json("GET", "/apis/example.com/v1")
    assert [one["name"] for one in listed["resources"]] == ["things"]
    assert listed["resources"][0]["shortNames"] == ["th"]
    served.json("DELETE", f"{CRDS}/things.example.com")
    assert "example.com" not in groups()


def test_aggregated_discovery_changes_its_tag_with_the_kinds(served: Served) -> None:
    first = served.send("GET", "/apis", Accept=AGGREGATED)
    assert first.headers["Content-Type"] == AGGREGATED
    tag = first.headers["ETag"]
    assert served.send("GET", "/apis", Accept=AGGREGATED, If_None_Match=tag).status == 304
    served.json("POST", CRDS, CRD)
    second = served.send("GET", "/apis", Accept=AGGREGATED, If_None_Match=tag)
    assert second.status == 200
    assert [group["metadata"].get("name") for group in second.json()["items"]][-1] == "example.com"


def test_core_is_aggregated_on_its_own(served: Served) -> None:
    body = served.json("GET", "/api", Accept=AGGREGATED)
    resources = body["items"][0]["versions"][0]["resources"]
    pods = next(one for one in resources if one["resource"] == "pods")
    assert {one["subresource"] for one in pods["subresources"]} >= {"status", "log", "binding"}


def test_openapi_has_what_kubectl_looks_for(served: Served) -> None:
    index = served.json("GET", "/openapi/v3")["paths"]
    url = index["apis/apps/v1"]["serverRelativeURL"]
    document = served.json("GET", url)
    patch = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert patch["parameters"][0]["name"] == "fieldValidation"
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
    assert list(document["components"]["schemas"]) == ["com.example.v1.Thing"]
