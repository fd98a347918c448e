from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

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
    lines = served.send("GET", "/metrics").data.decode().splitlines()
    about = 'component="apiserver",dry_run="",group="",resource="configmaps"'
    assert {
        f'apiserver_request_total{{code="404",{about},scope="resource",subresource="",verb="GET",'
        'version="v1"} 2',
        f'apiserver_request_total{{code="200",{about},scope="namespace",subresource="",'
        'verb="LIST",version="v1"} 1',
        'apiserver_request_total{code="404",component="apiserver",dry_run="",group="",'
        'resource="",scope="",subresource="",verb="GET",version=""} 1',
        'apiserver_resource_objects{group="",resource="configmaps"} 0',
    } <= {*lines}
    assert lines[-1].startswith("process_start_time_seconds ")
    checks = served.send("GET", "/metrics/slis").data.decode().splitlines()
    assert 'kubernetes_healthcheck{name="ping",type="livez"} 1' in checks


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
