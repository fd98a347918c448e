from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from pytest_kwait.client.resource import PODS
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import Deadline, SystemClock, async_sleep
from pytest_kwait.clusters.provider import connect
from pytest_kwait.errors import ApiError, ClusterError, WaitFailed
from pytest_kwait.framework.pod.wait import wait_for_pod_success
from pytest_kwait.simulator import replay
from pytest_kwait.simulator.protocol.recording.files import RawLine, read_recording
from pytest_kwait.simulator.replay import RecordedCluster, ReplayServer
from tests.simulator.protocol.recording.lines import (
    CRDS,
    STARTED,
    change,
    definition,
    log,
    recorded_pod,
    recording,
    thing,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kubernetes.client import ApiClient


def recorded(folder: Path, *lines: RawLine, **options: Any) -> RecordedCluster:
    path = recording(folder / "a.gz", lines) if lines else recording(folder / "a.gz")
    return RecordedCluster(read_recording(path), **options)


def test_each_time_has_its_objects_under_their_own_versions(tmp_path: Path) -> None:
    cluster = recorded(tmp_path)
    pods = cluster.cluster.store.present("pods")
    assert (dict(pods), cluster.cluster.list("nodes")[0]["metadata"]["resourceVersion"]) == (
        {},
        "1",
    )
    seen = []
    for at in (1.0, 2.5, 4.5, 3.0):
        cluster.advance(at)
        (found,) = cluster.cluster.list("pods", "t-1")
        seen.append(
            (cluster.position, found["metadata"]["resourceVersion"], found["status"]["phase"])
        )
    last = (4.5, "9", "Failed")
    assert seen == [(1.0, "5", "Pending"), (2.5, "7", "Running"), last, last]
    assert cluster.cluster.clock.time() == STARTED + 4.5
    cluster.advance(6.0)
    assert (cluster.cluster.list("pods"), cluster.cluster.store.revision, cluster.is_at_end) == (
        [],
        11,
        True,
    )


def test_changes_that_are_recorded_twice_count_once(tmp_path: Path) -> None:
    lines = (
        change(0.0, "STATE", 7, recorded_pod(7)),
        change(1.0, "MODIFIED", 7, recorded_pod(7, "Twice")),
        change(2.0, "DELETED", 9, recorded_pod(9, name="unknown")),
    )
    cluster = recorded(tmp_path, *lines)
    cluster.advance(6.0)
    assert [one["status"]["phase"] for one in cluster.cluster.list("pods")] == ["Pending"]


def test_logs_are_those_of_the_instance_and_the_time(tmp_path: Path) -> None:
    def status(current: str, last: str, **state: Any) -> dict[str, Any]:
        ended = {"terminated": {"containerID": last}}
        one = {"name": "c", "containerID": current, "lastState": ended, "state": state}
        return {"containerStatuses": [one]}

    lines = (
        change(0.0, "STATE", 1, recorded_pod(1, "Running", **status("i-2", "i-1", running={}))),
        log(1.0, "first\n", "i-1"),
        log(2.0, "second\n", "i-2"),
        log(3.0, "third\n", "i-2"),
        change(4.0, "MODIFIED", 2, recorded_pod(2, "Running", **status("i-2", "i-2", waiting={}))),
    )
    cluster = recorded(tmp_path, change(0.0, "STATE", 0, node_of(), "nodes"), *lines)
    kubelet = cluster.cluster.kubelets["n-1"]

    def texts(*, previous: bool = False) -> list[bytes]:
        return [text for _, text in kubelet.logs("t-1", "web", "c", previous=previous)]

    cluster.advance(2.0)
    assert (texts(), texts(previous=True)) == ([b"second\n"], [b"first\n"])
    cluster.advance(4.0)
    assert (texts(), texts(previous=True)) == ([b"second\n", b"third\n"],) * 2
    assert kubelet.logs("t-1", "web", "other") == []
    assert kubelet.logs("t-1", "other", "c") == []


def node_of() -> dict[str, Any]:
    return {"metadata": {"name": "n-1", "resourceVersion": "0"}}


def test_custom_resources_are_served_while_they_are_defined(tmp_path: Path) -> None:
    lines = (
        change(1.0, "ADDED", 2, definition(), CRDS),
        change(2.0, "ADDED", 3, thing(), "things.example.com"),
        change(3.0, "DELETED", 4, thing(), "things.example.com"),
        change(4.0, "DELETED", 5, definition(), CRDS),
    )
    cluster = recorded(tmp_path, *lines)
    assert cluster.cluster.kinds.find("things.example.com") is None
    cluster.advance(2.0)
    assert [one["spec"] for one in cluster.cluster.list("things.example.com")] == [{"size": 3}]
    assert cluster.cluster.store.revision == 3
    cluster.advance(4.0)
    assert cluster.cluster.kinds.find("things.example.com") is None


def test_kinds_that_are_defined_later_can_be_served_before(tmp_path: Path) -> None:
    lines = (
        change(1.0, "ADDED", 2, definition(established=False), CRDS),
        change(2.0, "MODIFIED", 3, definition(), CRDS),
        change(3.0, "ADDED", 4, thing(), "things.example.com"),
        change(4.0, "DELETED", 5, thing(), "things.example.com"),
        change(5.0, "DELETED", 6, definition(), CRDS),
    )
    cluster = recorded(tmp_path, *lines)
    cluster.serve_later_kinds()
    assert cluster.cluster.find(CRDS, "things.example.com") is None
    for at, names in ((0.0, []), (1.5, []), (3.0, ["one"]), (4.0, [])):
        cluster.advance(at)
        found = cluster.cluster.list("things.example.com")
        assert [each["metadata"]["name"] for each in found] == names
    cluster.advance(5.0)
    assert cluster.cluster.kinds.find("things.example.com") is None


def test_objects_without_a_needed_field_are_reported(tmp_path: Path) -> None:
    status = {"conditions": [{"type": "Established", "status": "True"}]}
    bare_definition = {"metadata": {"name": "things.example.com"}, "status": status}
    cluster = recorded(tmp_path, change(1.5, "ADDED", 2, bare_definition, CRDS))
    with pytest.raises(ClusterError) as caught:
        cluster.advance(2.0)
    assert str(caught.value) == (
        f"the recording is corrupted: {CRDS} things.example.com at 1.5s: no 'spec'"
    )
    bare = RawLine(1.0, "ADDED", "pods", "t-1/web", 2, object=msgspec.Raw(b'{"kind":"Pod"}'))
    with pytest.raises(ClusterError, match="pods t-1/web at 1s: no 'metadata'"):
        recorded(tmp_path, bare).advance(2.0)


@contextmanager
def served(cluster: RecordedCluster, folder: Path) -> Iterator[ApiClient]:
    """Serve a recorded cluster in a thread; yield a client."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = ReplayServer(cluster)
    try:
        start = server.start(folder / "kubeconfig")
        asyncio.run_coroutine_threadsafe(start, loop).result(10)
        client = connect(folder / "kubeconfig").client()
        yield client
        client.close()  # type: ignore[no-untyped-call] # the official client has no types here
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def test_clients_read_a_recording_and_cannot_change_it(tmp_path: Path) -> None:
    cluster = recorded(tmp_path)
    cluster.advance(3.0)
    limit = Deadline.after(10.0)
    with served(cluster, tmp_path) as client:
        session = ApiSession.of(client)
        assert session.get(PODS, "web", "t-1", deadline=limit)["status"]["phase"] == "Running"
        assert session.logs("t-1", "web", deadline=limit) == "hello\n"
        refusals = []
        path = "/api/v1/namespaces/t-1/pods"
        for method, at in (
            ("POST", path),
            ("DELETE", f"{path}/web"),
            ("PATCH", f"{path}/web"),
            ("GET", f"{path}/web/exec?command=true"),
            ("GET", "/api/v1/nodes/n-1/proxy/pods"),
            ("POST", "/api/v1/namespaces/t-1/serviceaccounts/default/token"),
            ("POST", "/kwait/v1/faults"),
        ):
            with pytest.raises(ApiError) as caught:
                session.request(method, at, body={}, deadline=limit)
            refusals.append((caught.value.status, caught.value.message))
        review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        assert session.request("POST", path, body=review, deadline=limit).status == 201
    message = "this is a recording of test_shop.py::test_it: it can be read, not changed"
    assert refusals == [(405, message)] * 7
    kubeconfig = (tmp_path / "kubeconfig").read_text()
    assert '"namespace": "t-1"' in kubeconfig


class HastyClock(SystemClock):
    """A clock on which each look takes a quarter of a second."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += 0.25
        return self.now


def test_a_recording_plays_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "_STEP_SECONDS", 0.0)
    monkeypatch.setattr(replay, "_LOG_POLL_SECONDS", 0.0)
    cluster = recorded(tmp_path, clock=HastyClock())
    cluster.advance(2.0)
    seen: list[tuple[str, float]] = []
    cluster.cluster.store.watch("pods", lambda one: seen.append((one.type, cluster.position)))

    async def play() -> list[bytes]:
        task = asyncio.get_running_loop().create_task(cluster.play(2.0))
        while not cluster.is_playing:
            await async_sleep(0)
        kubelet = cluster.cluster.kubelets["n-1"]
        lines = [text async for _, text in kubelet.follow("t-1", "web", "c")]
        await task
        return lines

    assert asyncio.run(play()) == [b"hello\n", b"bye\n"]
    assert (cluster.position, cluster.is_playing) == (6.0, False)
    assert [kind for kind, _ in seen] == ["MODIFIED", "DELETED"]


def test_waits_work_on_a_recording(tmp_path: Path) -> None:
    cluster = recorded(tmp_path)
    cluster.advance(4.5)
    with served(cluster, tmp_path) as client, pytest.raises(WaitFailed) as caught:
        wait_for_pod_success(client, "t-1", "web", timeout="5s")
    assert "pod t-1/web" in str(caught.value)
