from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.objects import config_map

if TYPE_CHECKING:
    from tests.simulator.apiserver.conftest import Served

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x:1"}]}}


def test_object_is_created_read_listed_and_deleted(served: Served) -> None:
    made = served.send("POST", MAPS, config_map(k="v"))
    assert made.status == 201
    assert made.json()["kind"] == "ConfigMap"
    read = served.send("GET", f"{MAPS}/a")
    assert read.json() == made.json()
    listed = served.json("GET", MAPS)
    assert listed["kind"] == "ConfigMapList"
    assert [item["metadata"]["name"] for item in listed["items"]] == ["a"]
    assert "kind" not in listed["items"][0]
    assert served.json("DELETE", f"{MAPS}/a")["status"] == "Success"
    assert served.json("GET", MAPS)["items"] == []


def test_errors_are_status_objects(served: Served) -> None:
    answer = served.send("GET", f"{MAPS}/none")
    assert answer.status == 404
    assert answer.json() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'configmaps "none" not found',
        "reason": "NotFound",
        "details": {"name": "none", "kind": "configmaps"},
        "code": 404,
    }


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("/healthz", 200, b"ok"),
        ("/readyz", 200, b"ok"),
        ("/livez", 200, b"ok"),
        ("/nope", 404, b"404 page not found\n"),
        ("/apis/nope", 404, b"404 page not found\n"),
        ("/apis/nope.example.com/v1/nopes", 404, b"404 page not found\n"),
    ],
)
def test_served_non_resource_paths(served: Served, path: str, status: int, body: bytes) -> None:
    answer = served.send("GET", path)
    assert (answer.status, answer.data) == (status, body)


@pytest.mark.parametrize("path", ["/api/v1/nopes", "/apis/batch/v9/jobs", "/apis/batch/v9"])
def test_unknown_resource_of_a_known_group_is_not_found(served: Served, path: str) -> None:
    body = served.json("GET", path)
    assert body["message"] == "the server could not find the requested resource"
    assert body["details"] == {}


def test_unknown_token_is_unauthorized(served: Served) -> None:
    answer = served.send("GET", MAPS, token="wrong")
    assert answer.status == 401
    assert answer.json()["message"] == "Unauthorized"


@pytest.mark.parametrize(
    ("method", "path", "user", "message"),
    [
        (
            "GET",
            MAPS,
            "powerless",
            'configmaps is forbidden: User "powerless" cannot list resource "configmaps" in API '
            'group "" in the namespace "default"',
        ),
        (
            "DELETE",
            "/api/v1/nodes/x",
            "powerless",
            'nodes "x" is forbidden: User "powerless" cannot delete resource "nodes" in API group '
            '"" at the cluster scope',
        ),
        (
            "GET",
            f"{PODS}/x/log",
            "system:anonymous",
            'pods "x" is forbidden: User "system:anonymous" cannot get resource "pods/log" in API '
            'group "" in the namespace "default"',
        ),
    ],
)
def test_missing_permission_is_forbidden(
    served: Served, method: str, path: str, user: str, message: str
) -> None:
    token = "powerless-token" if user == "powerless" else ""
    answer = served.send(method, path, token=token)
    assert (answer.status, answer.json()["message"]) == (403, message)


def test_bodies_are_json_yaml_or_untyped(served: Served) -> None:
    yaml = b"metadata: {name: yaml}\ndata: {k: v}\n"
    assert served.send("POST", MAPS, yaml, Content_Type="application/yaml").status == 201
    assert served.send("POST", MAPS, config_map("j")).status == 201
    refused = served.send("POST", MAPS, b"x", Content_Type="text/csv")
    assert refused.status == 415
    assert refused.json()["message"] == (
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json, application/yaml, application/vnd.kubernetes.protobuf"
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            b"{nope",
            "the object provided is unrecognized (must be of type ConfigMap): couldn't get "
            "version/kind; json parse error: invalid character 'n' looking for beginning of object "
            "key string ({nope)",
        ),
        (
            b"",
            "the object provided is unrecognized (must be of type ConfigMap): couldn't get "
            "version/kind; json parse error: unexpected end of JSON input (<empty>)",
        ),
        (
            b'{"kind": "Secret", "metadata": {"name": "a"}}',
            'Secret in version "v1" cannot be handled as a ConfigMap: converting (v1.Secret) to '
            "(core.ConfigMap): unknown conversion",
        ),
        (
            b'{"apiVersion": "v2", "metadata": {"name": "a"}}',
            'ConfigMap in version "v2" cannot be handled as a ConfigMap: no kind "ConfigMap" is '
            'registered for version "v2" in scheme "pkg/runtime/scheme.go:111"',
        ),
    ],
)
def test_invalid_bodies_are_rejected(served: Served, body: bytes, message: str) -> None:
    answer = served.send("POST", MAPS, body)
    assert (answer.status, answer.json()["message"]) == (400, message)


def test_duplicate_and_unknown_fields_cause_warnings(served: Served) -> None:
    body = b'{"metadata": {"name": "a"}, "bogus": 1, "data": {"x": "1", "x": "2"}}'
    answer = served.send("POST", MAPS, body)
    assert answer.headers.getlist("Warning") == [
        '299 - "unknown field \\"bogus\\""',
        '299 - "duplicate field \\"data.x\\""',
    ]


def test_tables_show_columns_and_rows(served: Served) -> None:
    served.json("POST", MAPS, config_map(k="v"))
    table = served.json("GET", MAPS, Accept=TABLE)
    assert table["kind"] == "Table"
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert table["rows"][0]["cells"][:2] == ["a", 1]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    bare = served.json("GET", f"{MAPS}/a?includeObject=None", Accept=TABLE)
    assert bare["rows"][0]["object"] is None


def test_partial_metadata_is_served(served: Served) -> None:
    served.json("POST", MAPS, config_map(k="v"))
    accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    answer = served.json("GET", f"{MAPS}/a", Accept=accept)
    assert sorted(answer) == ["apiVersion", "kind", "metadata"]


def test_yaml_is_served_on_request(served: Served) -> None:
    served.json("POST", MAPS, config_map(k="v"))
    answer = served.send("GET", f"{MAPS}/a", Accept="application/yaml")
    assert answer.headers["Content-Type"] == "application/yaml"
    assert b"kind: ConfigMap" in answer.data


def test_unsupported_accept_header_is_rejected(served: Served) -> None:
    answer = served.send("GET", MAPS, Accept="text/csv")
    assert answer.status == 406
    assert answer.json()["message"].startswith("406: Not Acceptable")


def test_pages_show_one_revision(served: Served) -> None:
    for name in "abc":
        served.json("POST", MAPS, config_map(name))
    first = served.json("GET", f"{MAPS}?limit=2")
    assert [item["metadata"]["name"] for item in first["items"]] == ["a", "b"]
    assert first["metadata"]["remainingItemCount"] == 1
    served.json("POST", MAPS, config_map("d"))
    served.json("DELETE", f"{MAPS}/c")
    token = first["metadata"]["continue"]
    second = served.json("GET", f"{MAPS}?limit=2&continue={token}")
    assert [item["metadata"]["name"] for item in second["items"]] == ["c"]
    assert second["metadata"] == {"resourceVersion": first["metadata"]["resourceVersion"]}


def test_expired_page_is_gone(served: Served) -> None:
    for name in "abc":
        served.json("POST", MAPS, config_map(name))
    token = served.json("GET", f"{MAPS}?limit=2")["metadata"]["continue"]
    served.json("POST", MAPS, config_map("d"))
    served.run(served.api.store.forget_history)
    answer = served.send("GET", f"{MAPS}?limit=2&continue={token}")
    assert (answer.status, answer.json()["reason"]) == (410, "Expired")
    rest = answer.json()["metadata"]["continue"]
    listed = served.json("GET", f"{MAPS}?limit=2&continue={rest}")
    assert [item["metadata"]["name"] for item in listed["items"]] == ["c", "d"]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            "resourceVersionMatch=Exact",
            'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: '
            "resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        (
            "sendInitialEvents=true",
            'ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: '
            "sendInitialEvents is forbidden for list",
        ),
        (
            "watch=1&sendInitialEvents=true",
            'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: '
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
    ],
)
def test_conflicting_list_options_are_rejected(served: Served, query: str, message: str) -> None:
    answer = served.send("GET", f"{MAPS}?{query}")
    assert (answer.status, answer.json()["message"]) == (422, message)


def test_patches_come_in_four_forms(served: Served) -> None:
    served.json("POST", MAPS, config_map(k="v"))
    path = f"{MAPS}/a"
    forms: list[tuple[str, object, dict[str, str]]] = [
        ("application/merge-patch+json", {"data": {"k": "w"}}, {"k": "w"}),
        (
            "application/json-patch+json",
            [{"op": "add", "path": "/data/l", "value": "x"}],
            {"k": "w", "l": "x"},
        ),
        ("application/strategic-merge-patch+json", {"data": {"l": None}}, {"k": "w"}),
    ]
    for form, patch, data in forms:
        answer = served.send("PATCH", path, patch, Content_Type=form)
        assert (answer.status, answer.json()["data"]) == (200, data)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"m": "y"}}
    applied = served.send(
        "PATCH", f"{path}?fieldManager=m", body, Content_Type="application/apply-patch+yaml"
    )
    assert applied.json()["data"] == {"k": "w", "m": "y"}
    refused = served.send("PATCH", path, {}, Content_Type="application/json")
    assert (refused.status, refused.json()["message"]) == (415, "415: Unsupported Media Type")


def test_apply_requires_a_manager_and_alone_allows_force(served: Served) -> None:
    answer = served.send("PATCH", f"{MAPS}/a", {}, Content_Type="application/apply-patch+yaml")
    assert answer.json()["message"] == (
        'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for '
        "apply patch"
    )
    answer = served.send(
        "PATCH", f"{MAPS}/a?force=true", {}, Content_Type="application/merge-patch+json"
    )
    assert answer.json()["message"] == (
        'PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for '
        "non-apply patch"
    )


def test_collection_is_deleted_by_selector(served: Served) -> None:
    for name in "ab":
        served.json("POST", MAPS, {"metadata": {"name": name, "labels": {"n": name}}})
    deleted = served.json("DELETE", f"{MAPS}?labelSelector=n%3Da")
    assert [item["metadata"]["name"] for item in deleted["items"]] == ["a"]
    assert [item["metadata"]["name"] for item in served.json("GET", MAPS)["items"]] == ["b"]


def test_a_response_has_as_many_warnings_as_clients_can_read(served: Served) -> None:
    unknown = {f"k{number}": 1 for number in range(150)}
    answer = served.send("POST", MAPS, {**config_map(k="v"), **unknown})
    assert answer.status == 201
    warnings = answer.headers.getlist("Warning")
    assert (len(warnings), warnings[79]) == (80, '299 - "unknown field \\"k79\\""')


def test_deleting_a_job_warns_of_orphaned_pods(served: Served) -> None:
    path = "/apis/batch/v1/namespaces/default/jobs"
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}
    served.json("POST", path, {"metadata": {"name": "j"}, "spec": {"template": template}})
    answer = served.send("DELETE", f"{path}/j")
    assert answer.headers["Warning"] == (
        '299 - "child pods are preserved by default when jobs are deleted; set '
        "propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress "
        'this warning"'
    )
    assert answer.json()["metadata"]["finalizers"] == ["orphan"]


def test_scale_reads_and_writes_replicas(served: Served) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": POD["spec"]}
    spec = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    served.json("POST", path, {"metadata": {"name": "d"}, "spec": spec})
    scale = served.json("GET", f"{path}/d/scale")
    assert scale["kind"] == "Scale"
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"] == {"replicas": 0, "selector": "a=b"}
    patched = served.json(
        "PATCH",
        f"{path}/d/scale",
        {"spec": {"replicas": 0}},
        Content_Type="application/merge-patch+json",
    )
    assert patched["spec"] == {}
    assert served.json("GET", f"{path}/d")["spec"]["replicas"] == 0


def test_pods_are_bound_and_evicted(served: Served) -> None:
    served.json("POST", PODS, POD)
    named = {"metadata": {"name": "p"}}
    target = {**named, "target": {"kind": "Node", "name": "n"}}
    assert served.send("POST", f"{PODS}/p/binding", target).status == 201
    assert served.send("POST", f"{PODS}/p/binding", target).status == 409
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    served.json(
        "POST", budgets, {"metadata": {"name": "b"}, "spec": {"selector": {}, "minAvailable": 1}}
    )
    running = {"status": {"phase": "Running"}}
    merge = "application/merge-patch+json"
    served.json("PATCH", f"{PODS}/p/status", running, Content_Type=merge)
    status = {"observedGeneration": 1, "currentHealthy": 0, "desiredHealthy": 1}
    served.json("PATCH", f"{budgets}/b/status", {"status": status}, Content_Type=merge)
    refused = served.send("POST", f"{PODS}/p/eviction", named)
    assert (refused.status, refused.json()["message"]) == (
        429,
        "Cannot evict pod as it would violate the pod's disruption budget.",
    )
    served.json(
        "PATCH", f"{budgets}/b/status", {"status": {"disruptionsAllowed": 1}}, Content_Type=merge
    )
    assert served.send("POST", f"{PODS}/p/eviction?dryRun=All", named).status == 201
    assert served.json("GET", f"{budgets}/b")["status"]["disruptionsAllowed"] == 1
    assert served.send("POST", f"{PODS}/p/eviction", named).status == 201
    evicted = served.json("GET", f"{PODS}/p")
    assert evicted["metadata"]["deletionTimestamp"]
    assert evicted["status"]["conditions"][-1]["type"] == "DisruptionTarget"
    assert served.json("GET", f"{budgets}/b")["status"]["disruptionsAllowed"] == 0


def test_scale_is_applied(served: Served) -> None:
    path = "/apis/apps/v1/namespaces/default/replicasets"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": POD["spec"]}
    spec = {"replicas": 4, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    served.json("POST", f"{path}?fieldManager=maker", {"metadata": {"name": "r"}, "spec": spec})

    def apply(replicas: int, query: str) -> Any:
        scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": replicas}}
        where = f"{path}/r/scale?fieldManager=me{query}"
        return served.json("PATCH", where, scale, Content_Type="application/apply-patch+yaml")

    assert apply(2, "")["message"] == (
        'Apply failed with 1 conflict: conflict with "maker" using autoscaling/v1: .spec.replicas'
    )
    assert apply(2, "&force=true")["spec"] == {"replicas": 2}
    assert apply(3, "")["spec"] == {"replicas": 3}
    stored = served.json("GET", f"{path}/r")
    assert stored["spec"]["replicas"] == 3
    owners = [
        (one["manager"], one["operation"], one.get("subresource"))
        for one in stored["metadata"]["managedFields"]
        if "f:replicas" in one["fieldsV1"].get("f:spec", {})
    ]
    assert owners == [("me", "Apply", "scale")]


def _owners(obj: Any, field: str) -> list[str]:
    """Return the managers of a field of the spec, with their operations."""
    return [
        f"{one['manager']} {one['operation']} {one.get('subresource', '')}".rstrip()
        for one in obj["metadata"].get("managedFields", ())
        if f"f:{field}" in one["fieldsV1"].get("f:spec", {})
    ]


def test_who_owns_the_replicas_of_a_scale(served: Served) -> None:
    path = "/apis/apps/v1/namespaces/default/replicasets"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": POD["spec"]}
    spec = {"replicas": 4, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    served.json("POST", f"{path}?fieldManager=maker", {"metadata": {"name": "r"}, "spec": spec})

    def owners(method: str, manager: str, spec: Any, **headers: str) -> list[str]:
        scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "r"}}
        body = {**scale, "spec": spec} if spec is not None else scale
        answer = served.json(
            method, f"{path}/r/scale?force=true&fieldManager={manager}", body, **headers
        )
        assert "managedFields" not in answer["metadata"]
        stored = served.json("GET", f"{path}/r")
        counts.append(stored["spec"]["replicas"])
        return _owners(stored, "replicas")

    apply = {"Content_Type": "application/apply-patch+yaml"}
    counts: list[int] = []
    assert owners("PUT", "one", {"replicas": 2}) == ["one Update scale"]
    assert owners("PATCH", "two", {"replicas": 3}, **apply) == ["two Apply scale"]
    both = ["three Apply scale", "two Apply scale"]
    assert sorted(owners("PATCH", "three", {"replicas": 3}, **apply)) == both
    assert sorted(owners("PATCH", "two", {}, **apply)) == both
    assert owners("PATCH", "two", None, **apply) == ["three Apply scale"]
    assert owners("PATCH", "three", None, **apply) == []
    assert owners("PUT", "one", {"replicas": 5}) == []
    assert counts == [2, 3, 3, 3, 3, 0, 5]
    merge = "application/merge-patch+json"
    where = f"{path}/r?fieldManager=maker"
    served.json("PATCH", where, {"spec": {"replicas": 6}}, Content_Type=merge)
    assert owners("PUT", "zero", {"replicas": 0}) == []


def test_an_applied_status_takes_no_field_of_the_spec(served: Served) -> None:
    served.json("POST", f"{PODS}?fieldManager=maker", POD)
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"labels": {"l": "x"}},
        "spec": {"schedulerName": "other"},
        "status": {"message": "m"},
    }
    kind = "application/apply-patch+yaml"
    path = f"{PODS}/p/status?fieldManager=other"
    stored = served.json("PATCH", path, body, Content_Type=kind)
    assert _owners(stored, "schedulerName") == ["maker Update"]
    assert stored["status"]["message"] == "m"


def test_who_finalizes_a_namespace_owns_its_finalizers(served: Served) -> None:
    served.json("POST", "/api/v1/namespaces?fieldManager=maker", {"metadata": {"name": "n"}})
    body = {"metadata": {"name": "n"}, "spec": {"finalizers": ["kubernetes", "a.example/b"]}}
    path = "/api/v1/namespaces/n/finalize?fieldManager=other"
    assert _owners(served.json("PUT", path, body), "finalizers") == ["other Update finalize"]


def test_service_account_issues_tokens(served: Served) -> None:
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    answer = served.send("POST", path, {"spec": {}})
    assert answer.status == 201
    token = answer.json()["status"]["token"]
    reviews = "/apis/authentication.k8s.io/v1/tokenreviews"
    reviewed = served.json("POST", reviews, {"spec": {"token": token}})
    assert reviewed["status"]["user"]["username"] == "system:serviceaccount:default:default"
    unknown = served.json("POST", reviews, {"spec": {"token": "x"}})
    assert unknown["status"]["error"] == "invalid bearer token"


def test_reviews_answer_about_their_user(served: Served) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    asked = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    assert served.json("POST", path, asked)["status"]["allowed"] is True
    powerless = served.send("POST", path, asked, token="powerless-token").json()
    assert powerless["status"]["allowed"] is False
    who = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    assert served.json("POST", who, {})["status"]["userInfo"]["username"] == "admin"
    acted = served.json("POST", who, {}, Impersonate_User="bob", Impersonate_Group="g")
    assert acted["status"]["userInfo"] == {
        "username": "bob",
        "groups": ["g", "system:authenticated"],
    }


def test_strategic_patch_errors_show_the_patch(served: Served) -> None:
    served.json("POST", MAPS, config_map("p"))
    refused = served.send(
        "PATCH",
        f"{MAPS}/p?fieldValidation=Strict",
        b'{"bogus": {"x": [true, 1]}, "data": {"a": "b"}}',
        Content_Type="application/strategic-merge-patch+json",
    )
    assert (refused.status, refused.json()["message"]) == (
        422,
        ' "" is invalid: patch: Invalid value: "map[bogus:map[x:[true 1]] data:map[a:b]]": '
        'strict decoding error: unknown field "bogus"',
    )


@pytest.mark.parametrize(
    ("form", "patch", "why"),
    [
        ("merge", '{"data": {"a": "1", "a": "2"}}', 'duplicate field "data.a"'),
        (
            "merge",
            '{"data": {"a": "1", "a": "2"}, "odd": 1}',
            'duplicate field "data.a", unknown field "odd"',
        ),
        ("strategic-merge", '{"data": {"a": "1", "a": "2"}}', 'duplicate field "data.a"'),
        (
            "json",
            '[{"op": "add", "op": "add", "path": "/data", "value": {"a": "2"}}]',
            'json patch duplicate field "[0].op"',
        ),
    ],
)
def test_repeated_fields_of_patches_are_refused_or_warned_of(
    served: Served, form: str, patch: str, why: str
) -> None:
    served.json("POST", MAPS, config_map("p"))
    media = f"application/{form}-patch+json"

    def send(strictness: str) -> Any:
        path = f"{MAPS}/p?fieldValidation={strictness}"
        return served.send("PATCH", path, patch.encode(), Content_Type=media)

    refused = send("Strict")
    assert refused.status == 422
    assert refused.json()["message"].endswith(f": strict decoding error: {why}")
    warned = send("Warn")
    assert warned.json()["data"] == {"a": "2"}
    texts = [json.dumps(text) for text in why.split(", ")]
    assert warned.headers.getlist("Warning") == [f"299 - {text}" for text in texts]
    ignored = send("Ignore")
    assert (ignored.status, ignored.json()["data"]) == (200, {"a": "2"})
    assert "Warning" not in ignored.headers


def test_apply_without_a_name_requires_the_object(served: Served) -> None:
    body = b'{"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": "y"}}'
    form = "application/apply-patch+yaml"
    refused = served.send("PATCH", f"{MAPS}/p?fieldManager=m", body, Content_Type=form)
    assert (refused.status, refused.json()["message"]) == (
        400,
        "the name of the object (p based on URL) was undeterminable: name must be provided",
    )
    served.json("POST", MAPS, config_map("p"))
    applied = served.json("PATCH", f"{MAPS}/p?fieldManager=m", body, Content_Type=form)
    assert applied["metadata"]["name"] == "p"
