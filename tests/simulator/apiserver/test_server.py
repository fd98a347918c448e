from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.clock import SYSTEM_CLOCK
from tests.simulator.apiserver.conftest import ADMIN, POWERLESS, read_metrics

if TYPE_CHECKING:
    from tests.simulator.apiserver.conftest import Served

MAPS = "/api/v1/namespaces/default/configmaps"
NOWHERE = "the server could not find the requested resource"
NOT_SO = "the server does not allow this method on the requested resource"


def test_health_check_lists_its_checks(served: Served) -> None:
    lines = served.send("GET", "/livez?verbose").data.decode().splitlines()
    assert lines[:4] == [
        "[+]ping ok",
        "[+]log ok",
        "[+]loopback-serving-certificate ok",
        "[+]etcd ok",
    ]
    assert lines[-1] == "livez check passed"
    text = served.send("GET", "/readyz?verbose&exclude=etcd&exclude=b&exclude=a").data.decode()
    assert "[+]etcd excluded: ok\n" in text
    assert text.endswith(
        '[+]shutdown ok\nwarn: some health checks cannot be excluded: no matches for "a","b"\n'
        "readyz check passed\n"
    )


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/livez/ping", 200),
        ("/readyz/poststarthook/rbac/bootstrap-roles", 200),
        ("/livez/nope", 404),
        ("/livez/", 404),
        ("/index.html", 200),
        ("//api/v1", 404),
    ],
)
def test_non_resource_paths(served: Served, path: str, status: int) -> None:
    assert served.send("GET", path).status == status


def test_index_lists_served_paths(served: Served) -> None:
    paths = served.json("GET", "/")["paths"]
    assert paths == sorted(paths)
    assert {"/api/v1", "/apis/batch/v1", "/readyz/shutdown", "/openapi/v3", "/version"} <= {*paths}


def test_metrics_count_requests_by_label(served: Served) -> None:
    served.send("GET", f"{MAPS}/a")
    served.send("GET", f"{MAPS}/b")
    served.send("GET", MAPS)
    served.send("GET", '/api/v1/namespaces/default/o"dd')
    answer = served.send("GET", "/metrics")
    assert answer.headers["Content-Type"] == (
        "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
    )
    families = {family.name: family for family in read_metrics(answer.data)}
    assert {name: family.type for name, family in families.items()} == {
        "apiserver_request": "counter",
        "apiserver_resource_objects": "gauge",
        "process_start_time_seconds": "gauge",
    }
    counts = {
        (each.labels["code"], each.labels["verb"], each.labels["resource"], each.labels["scope"]): (
            each.value
        )
        for each in families["apiserver_request"].samples
    }
    assert counts == {
        ("404", "GET", "configmaps", "resource"): 2,
        ("200", "LIST", "configmaps", "namespace"): 1,
        ("404", "GET", "", ""): 1,
    }
    found = next(
        each for each in families["apiserver_request"].samples if each.labels["verb"] == "LIST"
    )
    assert (found.name, found.labels) == (
        "apiserver_request_total",
        {
            "code": "200",
            "component": "apiserver",
            "dry_run": "",
            "group": "",
            "resource": "configmaps",
            "scope": "namespace",
            "subresource": "",
            "verb": "LIST",
            "version": "v1",
        },
    )
    objects = {
        (each.labels["group"], each.labels["resource"]): each.value
        for each in families["apiserver_resource_objects"].samples
    }
    assert objects["", "configmaps"] == 0
    [started] = families["process_start_time_seconds"].samples
    assert 0 <= SYSTEM_CLOCK.time() - started.value < 600


def test_health_checks_are_metrics(served: Served) -> None:
    [family] = read_metrics(served.send("GET", "/metrics/slis").data)
    assert (family.name, family.type) == ("kubernetes_healthcheck", "gauge")
    assert {each.value for each in family.samples} == {1}
    assert {"name": "ping", "type": "livez"} in [each.labels for each in family.samples]


def test_methods_of_one_verb_share_a_series(served: Served) -> None:
    for method in ("GET", "POST"):
        served.send(method, "/api/v1/namespaces/default/pods/p/attach")
    families = {each.name: each for each in read_metrics(served.send("GET", "/metrics").data)}
    counts = [
        each.value
        for each in families["apiserver_request"].samples
        if each.labels["verb"] == "CONNECT"
    ]
    assert counts == [2]


def test_start_does_not_import_prometheus_client() -> None:
    program = (
        "import sys, pytest_kwait.simulator.server_main, pytest_kwait.simulator.cluster, "
        "pytest_kwait.simulator.apiserver.server; "
        "print([name for name in sys.modules if name.startswith('prometheus_client')])"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "[]\n"


def test_statusz_shows_start_time_and_version(served: Served) -> None:
    lines = served.send("GET", "/statusz").data.decode().splitlines()
    assert lines[:2] == ["", "apiserver statusz"]
    assert [line.partition(":")[0] for line in lines[4:]] == [
        "Started",
        "Up",
        "Binary version",
        "Emulation version",
        "Paths",
    ]
    assert lines[-1] == "Paths: /healthz /livez /metrics /readyz /statusz /version"


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("POST", "/api", 405, NOT_SO),
        ("PUT", "/apis/batch/v1", 405, NOT_SO),
        ("DELETE", "/version", 405, NOT_SO),
        ("GET", "/version/x", 404, NOWHERE),
        ("POST", f"{MAPS}/a", 405, NOT_SO),
        ("PUT", MAPS, 405, NOT_SO),
        ("OPTIONS", MAPS, 405, NOT_SO),
        ("DELETE", "/api/v1/configmaps", 405, NOT_SO),
        ("POST", "/api/v1/configmaps/a", 404, NOWHERE),
        ("PUT", "/api/v1/namespaces/default/nope/a", 404, NOWHERE),
        ("GET", f"{MAPS}/a%2Fb", 404, NOWHERE),
        ("GET", "/api/v1/namespaces/default/pods/p/log/x", 404, NOWHERE),
        ("GET", "/api/v1/namespaces/default/status/x", 404, NOWHERE),
        ("GET", "/api/v1/watch/componentstatuses", 404, NOWHERE),
        ("POST", "/api/v1/watch/namespaces/default/configmaps", 405, NOT_SO),
        ("GET", "/apis/authorization.k8s.io/v1/subjectaccessreviews", 405, NOT_SO),
        ("GET", "/apis/authorization.k8s.io/v1/subjectaccessreviews/x", 404, NOWHERE),
        (
            "GET",
            "/api/v1/componentstatuses?watch=1",
            405,
            'watch is not supported on resources of kind "componentstatuses"',
        ),
    ],
)
def test_unknown_routes_are_rejected(
    served: Served, method: str, path: str, status: int, message: str
) -> None:
    answer = served.send(method, path)
    assert (answer.status, answer.json()["message"]) == (status, message)


def test_watch_path_without_a_resource_is_an_error(served: Served) -> None:
    answer = served.send("GET", "/api/v1/watch")
    assert answer.status == 500
    assert answer.data.decode() == (
        'Internal Server Error: "/api/v1/watch": failed to create RequestInfo: unable to '
        "determine kind and namespace from url, /api/v1/watch\n"
    )


def test_head_is_served_for_health_only(served: Served) -> None:
    assert served.send("HEAD", MAPS).status == 405
    assert served.send("HEAD", "/healthz").status == 200


def test_responses_have_an_audit_id_and_are_not_cached(served: Served) -> None:
    for path in (MAPS, f"{MAPS}/none", "/healthz", "/nope", f"{MAPS}?watch=1&timeoutSeconds=1"):
        headers = served.send("GET", path).headers
        assert headers["Cache-Control"] == "no-cache, private"
        assert len(headers["Audit-Id"]) == 36
    assert served.send("GET", MAPS, Audit_ID="mine").headers["Audit-Id"] == "mine"


@pytest.mark.parametrize(
    ("time_scale", "has_controllers", "headers"),
    [
        (1.0, True, {}),
        (0.1, True, {"Kwait-Time-Scale": "0.1"}),
        (0.1, False, {"Kwait-Time-Scale": "0.1", "Kwait-Controllers": "none"}),
    ],
)
def test_each_response_says_how_the_cluster_is_unlike_a_real_one(
    served: Served, time_scale: float, has_controllers: bool, headers: dict[str, str]
) -> None:
    served.api.time_scale, served.api.has_controllers = time_scale, has_controllers
    for path in (MAPS, f"{MAPS}/none", "/version", f"{MAPS}?watch=1&timeoutSeconds=1"):
        for token in (ADMIN, POWERLESS):
            answer = served.send("GET", path, token=token)
            assert {k: v for k, v in answer.headers.items() if k.startswith("Kwait-")} == headers


def test_deprecated_kinds_send_a_warning(served: Served) -> None:
    answer = served.send("GET", "/api/v1/namespaces/default/endpoints")
    assert answer.headers["Warning"] == (
        '299 - "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"'
    )
    parts = served.json("GET", "/api/v1/componentstatuses")
    assert [part["metadata"]["name"] for part in parts["items"]] == [
        "scheduler",
        "controller-manager",
        "etcd-0",
    ]
    assert parts["metadata"] == {}


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("timeout=abc", 'time: invalid duration "abc"'),
        ("timeout=1.5", 'time: missing unit in duration "1.5"'),
    ],
)
def test_invalid_timeout_is_rejected(served: Served, query: str, message: str) -> None:
    answer = served.json("GET", f"{MAPS}?{query}")
    assert answer["message"] == f"invalid timeout specified in the request URL - {message}"
    assert served.send("GET", f"{MAPS}?timeout=10s").status == 200
