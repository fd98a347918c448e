"""The faults API, and the effects of faults on requests."""

from __future__ import annotations

import json
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from urllib3.exceptions import ProtocolError

from pytest_kwait import wait
from pytest_kwait.simulator.apiserver import faults_api
from pytest_kwait.simulator.history import get_recordings
from pytest_kwait.simulator.image_reference import parse_image
from pytest_kwait.simulator.protocol.image_mapping import make_image_mapping
from pytest_kwait.simulator.runtimes.processes import program_container
from pytest_kwait.simulator.runtimes.processes.runtime import Isolation
from tests.simulator.apiserver.conftest import ADMIN, POWERLESS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_kwait.simulator.apiserver.request import ApiRequest
    from tests.simulator.apiserver.conftest import Served

FAULTS = "/kwait/v1/faults"
MAPS = "/api/v1/namespaces/default/configmaps"


@contextmanager
def held(served: Served) -> Iterator[str]:
    url = f"http://127.0.0.1:{served.port}/kwait/v1/hold"
    headers = {"Authorization": f"Bearer {ADMIN}"}
    answer = served.pool.request("GET", url, headers=headers, timeout=30, preload_content=False)
    try:
        lines = answer.stream(4096)  # Garbage collection would close the connection.
        yield json.loads(next(lines))["holder"]
    finally:
        answer.close()


@pytest.fixture
def holder(served: Served) -> Iterator[str]:
    with held(served) as name:
        yield name


def make(served: Served, holder: str, kind: str, **more: Any) -> str:
    answer = served.send("POST", FAULTS, {"kind": kind, "holder": holder, **more})
    assert answer.status == 200, answer.data
    name: str = answer.json()["id"]
    return name


def hits(served: Served, fault: str) -> int:
    found: int = served.json("GET", f"{FAULTS}/{fault}")["hits"]
    return found


def test_fault_429_sends_retry_after(served: Served, holder: str) -> None:
    fault = make(served, holder, "refusal", status=429, retryAfter=3)
    answer = served.send("GET", MAPS)
    assert (answer.status, answer.headers["Retry-After"]) == (429, "3")
    assert answer.json() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": (
            "The apiserver is currently processing too many requests. Please try again later."
        ),
        "reason": "TooManyRequests",
        "details": {"retryAfterSeconds": 3},
        "code": 429,
    }
    assert hits(served, fault) == 1
    assert served.send("DELETE", f"{FAULTS}/{fault}").status == 200
    assert served.send("GET", MAPS).status == 200


def test_fault_500_hits_a_number_of_times(served: Served, holder: str) -> None:
    make(served, holder, "refusal", status=500, times=2)
    answers = [served.send("GET", MAPS) for _ in range(3)]
    assert [answer.status for answer in answers] == [500, 500, 200]
    assert answers[0].json()["message"] == (
        "Internal error occurred: etcdserver: request timed out"
    )


@pytest.mark.parametrize(
    ("scope", "status"),
    [
        ({"namespace": "default"}, 500),
        ({"namespace": "other"}, 200),
        ({"client": "me"}, 500),
        ({"client": "you"}, 200),
        ({"resources": ["configmaps"]}, 500),
        ({"resources": ["pods"]}, 200),
        ({"verbs": ["list"]}, 500),
        ({"verbs": ["get", "watch", "create"]}, 200),
        ({"namespace": "default", "verbs": ["get"]}, 200),
    ],
)
def test_fault_spares_requests_outside_its_scope(
    served: Served, holder: str, scope: dict[str, Any], status: int
) -> None:
    make(served, holder, "refusal", status=500, **scope)
    assert served.send("GET", MAPS, Kwait_Client="me").status == status
    assert served.send("GET", "/version").status == 200


@pytest.mark.parametrize(
    ("method", "path", "verb"),
    [
        ("GET", f"{MAPS}/a", "get"),
        ("GET", f"{MAPS}?watch=1", "watch"),
        ("GET", "/api/v1/watch/configmaps", "watch"),
        ("POST", MAPS, "create"),
        ("PUT", f"{MAPS}/a", "update"),
        ("PATCH", f"{MAPS}/a", "patch"),
        ("DELETE", f"{MAPS}/a", "delete"),
        ("DELETE", MAPS, "deletecollection"),
    ],
)
def test_fault_scope_accepts_every_verb(
    served: Served, holder: str, method: str, path: str, verb: str
) -> None:
    make(served, holder, "refusal", status=429, verbs=[verb])
    answer = served.send(method, path)
    assert (answer.status, "Retry-After" in answer.headers) == (429, False)


def test_fault_latency_delays_the_response(served: Served, holder: str) -> None:
    fault = make(served, holder, "latency", seconds=0.01)
    make(served, holder, "refusal", status=500)
    assert served.send("GET", MAPS).status == 500
    assert hits(served, fault) == 1


def test_fault_cuts_open_watches(served: Served, holder: str) -> None:
    served.send("POST", MAPS, {"metadata": {"name": "a"}})
    watch = served.watch(f"{MAPS}?watch=1&resourceVersion=0")
    assert next(watch)["type"] == "ADDED"
    assert hits(served, make(served, holder, "cut-watches", namespace="other")) == 0
    assert hits(served, make(served, holder, "cut-watches", namespace="default")) == 1
    with pytest.raises(ProtocolError, match=r"Connection broken|ended prematurely"):
        list(watch)


def test_fault_expires_past_resource_versions(served: Served, holder: str) -> None:
    before = served.json("GET", MAPS)["metadata"]["resourceVersion"]
    fault = make(served, holder, "expired-history", namespace="default")
    (event,) = served.watch(f"{MAPS}?watch=1&resourceVersion={before}&timeoutSeconds=1")
    now = served.json("GET", MAPS)["metadata"]["resourceVersion"]
    assert event == {
        "type": "ERROR",
        "object": {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": f"too old resource version: {before} ({now})",
            "reason": "Expired",
            "code": 410,
        },
    }
    assert list(served.watch(f"{MAPS}?watch=1&resourceVersion={now}&timeoutSeconds=1")) == []
    assert hits(served, fault) == 1


def test_faults_end_with_the_connection_of_their_holder(served: Served) -> None:
    with held(served) as name:
        make(served, name, "refusal", status=500)
        assert served.send("GET", MAPS).status == 500
        assert [one["holder"] for one in served.json("GET", FAULTS)["faults"]] == [name]
    wait.poll_immediate("10ms", "30s", lambda: not served.json("GET", FAULTS)["faults"])
    assert served.send("GET", MAPS).status == 200
    answer = served.send("POST", FAULTS, {"kind": "refusal", "holder": name, "status": 500})
    assert answer.json()["message"] == (
        f"holder: '{name}' does not exist: a holder ends with its request"
    )


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"kind": "flood"},
            "kind: 'flood' is invalid: use one of clock-jump, cut-watches, dead-kubelet, ",
        ),
        ({"kind": ["refusal"]}, "kind: ['refusal'] is invalid: use one of clock-jump"),
        ({"kind": "refusal", "status": 404}, "status: 404 is invalid: use 429 or 500"),
        ({"kind": "refusal", "status": "429"}, "status: '429' is invalid: use a value of type int"),
        (
            {"kind": "refusal", "status": 429, "retryAfter": -1},
            "retryAfter: -1 is invalid: use at least 0",
        ),
        ({"kind": "refusal", "status": 500, "times": 0}, "times: 0 is invalid: use at least 1"),
        (
            {"kind": "refusal", "status": 500, "times": True},
            "times: True is invalid: use a value of type int",
        ),
        (
            {"kind": "refusal", "status": 500, "who": "me"},
            "who: unknown field: refusal has client, holder, kind",
        ),
        (
            {"kind": "refusal", "status": 500, "verbs": ["look"]},
            "verbs: 'look' is invalid: use one of create",
        ),
        (
            {"kind": "refusal", "status": 500, "resources": [1]},
            "resources: 1 is invalid: use a string",
        ),
        (
            {"kind": "latency", "seconds": 0},
            "seconds: 0 is invalid: use more than 0 and at most 86400",
        ),
        ({"kind": "latency"}, "seconds: 0 is invalid: use more than 0 and at most 86400"),
        ({"kind": "pulls"}, "pulls: use either message or seconds"),
        ({"kind": "pulls", "message": "no", "seconds": 1}, "pulls: use either message or seconds"),
        ({"kind": "partition", "node": "n"}, "node: 'n' is invalid: use one of "),
        (
            {"kind": "clock-jump"},
            "seconds: 0 is invalid: use at most 86400 in either direction, not 0",
        ),
        ({"kind": "out-of-memory", "pod": "p", "namespace": "default"}, 'pods "p" not found'),
    ],
)
def test_fault_with_invalid_fields_is_rejected(
    served: Served, holder: str, asked: dict[str, Any], message: str
) -> None:
    answer = served.send("POST", FAULTS, {"holder": holder, **asked})
    assert answer.status in (400, 404)
    assert answer.json()["message"].startswith(message)
    assert served.json("GET", FAULTS) == {"faults": []}


def test_faults_require_an_administrator(served: Served) -> None:
    assert served.send("GET", FAULTS, token=POWERLESS).status == 403
    assert served.send("GET", "/kwait/v1/hold", token=POWERLESS).status == 403
    assert served.send("POST", FAULTS, {"kind": "refusal"}, token="").status == 403


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/kwait/v1/faults/none", 404),
        ("DELETE", "/kwait/v1/faults/none", 404),
        ("PUT", "/kwait/v1/faults", 405),
        ("POST", "/kwait/v1/hold", 405),
        ("GET", "/kwait/v1/more", 404),
        ("GET", "/kwait/v2/faults", 404),
    ],
)
def test_faults_api_has_no_other_paths(served: Served, method: str, path: str, status: int) -> None:
    assert served.send(method, path).status == status


@pytest.mark.parametrize("body", [b"{", b"[]", b"\xff", b""])
def test_fault_with_a_malformed_body_is_rejected(served: Served, body: bytes) -> None:
    assert served.send("POST", FAULTS, body).status == 400


def test_a_history_is_recorded_for_administrators_of_the_machine(
    served: Served, tmp_path: Path
) -> None:
    path, folder = "/kwait/v1/history", {"folder": str(tmp_path / "history")}
    version = served.json("GET", "/version")["gitVersion"]
    for _ in range(2):
        answer = served.send("POST", path, folder)
        assert (answer.status, answer.json()) == (200, {"version": version, "trouble": ""})
    assert (tmp_path / "history" / "cluster.jsonl").exists()
    assert served.send("GET", path).status == 405
    assert served.send("POST", path, folder, token=POWERLESS).status == 403
    refused = served.send("POST", path, {"folder": "here"})
    assert (refused.status, refused.json()["message"]) == (
        400,
        "folder: 'here' is invalid: use an absolute path",
    )
    assert served.send("POST", path, [1]).json()["message"] == "a history is an object"
    served.run(lambda: get_recordings(served.api).stop())


def _mapping(command: str) -> dict[str, Any]:
    return make_image_mapping("shop/web:*", [command], env={"PATH": "/bin"}, workdir="/").to_json()


def test_images_are_mapped_until_the_holder_ends(served: Served) -> None:
    image = parse_image("shop/web:1")
    with held(served) as holder, held(served) as other:
        make(served, holder, "image", image=_mapping("web"))
        make(served, other, "image", image=_mapping("web"))
        found = served.api.images.find(image)
        assert served.json("GET", FAULTS) == {"faults": []}
        assert found is not None
        assert found.command == ("web",)
        body = {"kind": "image", "holder": other, "image": _mapping("db")}
        answer = served.send("POST", FAULTS, body)
        assert (answer.status, answer.json()["reason"]) == (409, "Conflict")
        assert answer.json()["message"] == (
            'the pattern "shop/web:*" is mapped already, with the command web instead of db: map '
            "it once for all tests and workers, or undo the other mapping first"
        )
    wait.poll_immediate("10ms", "30s", lambda: served.api.images.find(image) is None)


def test_an_invalid_mapping_is_refused(served: Served, holder: str) -> None:
    answer = served.send("POST", FAULTS, {"kind": "image", "holder": holder, "image": {"a": 1}})
    assert (answer.status, answer.json()["message"]) == (
        400,
        "image={'a': 1} is not valid: use an object with pattern, command, args, env, workdir, "
        "user, writable, files, stop_signal",
    )


def test_images_are_mapped_from_the_machine_alone(
    served: Served, holder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults_api, "_is_local", lambda request: False)
    body = {"kind": "image", "holder": holder, "image": _mapping("web")}
    answer = served.send("POST", FAULTS, body)
    assert (answer.status, answer.json()["message"]) == (
        403, "images are mapped to programs from the cluster's own machine alone",
    )  # fmt: skip


def test_egress_is_allowed_until_the_holder_ends(served: Served) -> None:
    with held(served) as holder:
        make(served, holder, "egress", egress="pypi.org:443")
        assert list(served.api.egress) == [("pypi.org", 443)]
        assert served.json("GET", FAULTS) == {"faults": []}
    wait.poll_immediate("10ms", "30s", lambda: not list(served.api.egress))


def test_invalid_egress_is_refused(served: Served, holder: str) -> None:
    answer = served.send("POST", FAULTS, {"kind": "egress", "holder": holder, "egress": "pypi.org"})
    assert (answer.status, answer.json()["message"]) == (
        400,
        "egress='pypi.org' is not valid: use HOST:PORT with a DNS name, an IPv4 address or "
        "localhost, and a port from 1 to 65535, for example pypi.org:443",
    )


def test_egress_is_allowed_from_the_machine_alone(
    served: Served, holder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults_api, "_is_local", lambda request: False)
    body = {"kind": "egress", "holder": holder, "egress": "pypi.org:443"}
    answer = served.send("POST", FAULTS, body)
    assert (answer.status, answer.json()["message"]) == (
        403, "egress is allowed from the cluster's own machine alone",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("remote", "local"),
    [("127.0.0.1", True), ("::1", True), ("192.0.2.1", False), (None, False), ("x", False)],
)
def test_requests_of_this_machine_come_from_loopback(remote: str | None, local: bool) -> None:
    request = cast("ApiRequest", SimpleNamespace(http=SimpleNamespace(remote=remote)))
    assert faults_api._is_local(request) is local


def test_nothing_is_said_of_isolation_before_a_program_runs(served: Served) -> None:
    assert served.json("GET", "/kwait/v1/isolation") == {"missing": []}
    assert served.send("POST", "/kwait/v1/isolation", {}).status == 405


@pytest.mark.parametrize(
    ("missing", "refusal", "lacking"),
    [
        (("programs are plain processes",), "programs are plain processes", {}),
        (("no users",), "", {"users": "no users"}),
        (None, "", {}),
    ],
)
def test_refusal_of_isolation_is_known_before_a_program_runs(
    served: Served,
    monkeypatch: pytest.MonkeyPatch,
    missing: tuple[str, ...] | None,
    refusal: str,
    lacking: dict[str, str],
) -> None:
    calls: list[object] = []

    async def detect(requested: str) -> Isolation:
        assert requested == "none"
        calls.append(missing)
        if missing is None:
            raise OSError("no processes")
        return Isolation(not refusal, True, "none", "none", True, missing, lacking=lacking)

    monkeypatch.setattr(program_container, "detect_isolation", detect)
    served.api.isolation = "none"
    path = "/kwait/v1/isolation/refusal"
    for _ in range(2):
        assert served.json("GET", path) == {"refusal": refusal, "lacking": lacking}
    assert len(calls) == (2 if missing is None else 1)
    assert served.json("GET", "/kwait/v1/isolation") == {"missing": []}
    assert served.send("POST", path, {}).status == 405
