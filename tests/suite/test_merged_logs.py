"""Logs of several pods in one text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.client import V1ObjectMeta, V1Pod

from pytest_kwait.client.session import ApiSession
from pytest_kwait.errors import ApiError, InvalidArgument
from pytest_kwait.suite.merged_logs import LogPlace, list_log_places, merge_logs
from tests.objects import pod, workload
from tests.suite.fakes import FakeCluster
from tests.suite.test_kwait import make_kwait

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_kwait.suite.kwait import Kwait

DAY = "2026-01-01T00:00:"
SECOND = "2026-01-01T01:00:"
"""The same time in another zone."""


def status(name: str, state: str, *, last: bool = False) -> dict[str, Any]:
    return {"name": name, "state": {state: {}}, "lastState": {"terminated": {}} if last else {}}


PODS = [
    pod(
        "a",
        "Running",
        labels={"app": "web"},
        containers=[{"name": "main"}],
        initContainers=[{"name": "setup"}],
        initContainerStatuses=[status("setup", "terminated")],
        containerStatuses=[status("main", "running", last=True)],
    ),
    pod(
        "b",
        "Pending",
        labels={"app": "web"},
        containers=[{"name": "main"}, {"name": "proxy"}],
        containerStatuses=[status("main", "waiting"), status("proxy", "waiting", last=True)],
    ),
    pod("c", labels={"app": "web"}),
]


@pytest.mark.parametrize(
    ("container", "previous", "places"),
    [
        (None, False, ["a/setup", "a/main", "b/proxy"]),
        ("main", False, ["a/main"]),
        (None, True, ["a/main", "b/proxy"]),
    ],
)
def test_containers_that_have_a_log(
    container: str | None, previous: bool, places: list[str]
) -> None:
    found = list_log_places(PODS, container, previous=previous)

    assert ["/".join(place) for place in found] == places


def test_a_container_that_no_pod_has() -> None:
    with pytest.raises(InvalidArgument) as caught:
        list_log_places(PODS, "mian", previous=False)

    assert str(caught.value) == (
        "container='mian' is not valid: use a container of these pods: setup, main, proxy"
    )


@pytest.mark.parametrize("timestamps", [False, True])
def test_lines_are_merged_by_time(timestamps: bool) -> None:
    logs = {
        LogPlace("a", "main"): f"{DAY}01Z one\n{DAY}03.5Z  three\n{DAY}02Z late\nno time",
        LogPlace("b", "main"): f"{SECOND}02+01:00 two\n{SECOND}04+01:00 \n",
        LogPlace("c", "main"): "",
    }

    times = [
        f"{DAY}01Z ",
        f"{SECOND}02+01:00 ",
        f"{DAY}03.5Z ",
        f"{DAY}02Z ",
        "",
        f"{SECOND}04+01:00 ",
    ]
    lines = ["a one", "b two", "a  three", "a late", "a no time", "b "]
    assert merge_logs(logs, timestamps=timestamps) == "".join(
        f"[pod/{line[0]}/main] {time if timestamps else ''}{line[2:]}\n"
        for time, line in zip(times, lines, strict=True)
    )


@pytest.fixture
def kwait(tmp_path: Path) -> Iterator[Kwait]:
    made = make_kwait(FakeCluster(), tmp_path, owned=True)
    made.create(workload(), *PODS)
    yield made
    made.close()


@pytest.fixture
def asked(kwait: Kwait, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    requests = []

    def read(self: ApiSession, namespace: str, name: str, **options: Any) -> str:
        del options["deadline"]
        requests.append({"namespace": namespace, "pod": name, **options})
        if options["container"] == "proxy":
            raise ApiError("it waits", status=400)
        return f"{DAY}01Z {name}\n"

    monkeypatch.setattr(ApiSession, "logs", read)
    return requests


@pytest.mark.parametrize(
    "arguments",
    [
        {"target": "deployment/web", "all_pods": True},
        {"selector": "app=web"},
        {"selector": {"app": "web"}, "all_pods": True},
    ],
)
def test_the_logs_of_all_pods(
    kwait: Kwait, asked: list[dict[str, Any]], arguments: dict[str, Any]
) -> None:
    text = kwait.logs(**arguments, tail=3, since=60)

    assert text == "[pod/a/setup] a\n[pod/a/main] a\n"
    options = {"previous": False, "tail_lines": 3, "since_seconds": 60, "timestamps": True}
    places = [("a", "setup"), ("a", "main"), ("b", "proxy")]
    assert asked == [
        {"namespace": "ci-1", "pod": name, "container": container, **options}
        for name, container in places
    ]


@pytest.mark.parametrize(
    "target", ["a", "pod/a", V1Pod(metadata=V1ObjectMeta(name="a"))], ids=["name", "kind", "model"]
)
def test_the_logs_of_one_pod_with_its_name(
    kwait: Kwait, asked: list[dict[str, Any]], target: Any
) -> None:
    text = kwait.logs(target, all_pods=True, container="main", timestamps=True)

    assert text == f"[pod/a/main] {DAY}01Z a\n"


def test_the_log_of_the_pod_that_kubectl_selects(kwait: Kwait, asked: list[dict[str, Any]]) -> None:
    assert kwait.logs("deployment/web", container="main") == f"{DAY}01Z a\n"
    assert [request["timestamps"] for request in asked] == [False]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "arguments=[] is not valid: give exactly one of target and selector"),
        (
            {"target": "web", "selector": "app=web"},
            "arguments=[] is not valid: give exactly one of target and selector",
        ),
        ({"selector": ""}, "selector='' is not valid: use labels that select something"),
        ({"target": "web", "all_pods": 1}, "all_pods=1 is not valid: use True or False"),
        ({"selector": "app=x"}, "404 NotFound: selector app=x in ci-1 has no pods"),
        (
            {"target": "cm/web", "all_pods": True},
            "target='cm/web' is not valid: use the name of a pod, 'pod/name', or what selects "
            "pods: 'deployment/web'",
        ),
    ],
)
def test_invalid_arguments(kwait: Kwait, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((InvalidArgument, ApiError)) as caught:
        kwait.logs(**arguments)

    assert str(caught.value) == message


def test_refused_logs(kwait: Kwait, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: ApiSession, namespace: str, name: str, **options: Any) -> str:
        raise ApiError("no", status=403, reason="Forbidden")

    monkeypatch.setattr(ApiSession, "logs", refuse)
    with pytest.raises(ApiError, match="no"):
        kwait.logs(selector="app=web")
