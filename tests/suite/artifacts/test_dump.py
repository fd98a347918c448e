from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from pytest_kwait.client.resource import (
    DAEMON_SETS,
    DEPLOYMENTS,
    EVENTS,
    NODES,
    PODS,
    SECRETS,
    Resource,
)
from pytest_kwait.client.responses import Response
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.failure.redaction import make_redactor
from pytest_kwait.errors import ApiError
from pytest_kwait.suite.artifacts import dump
from pytest_kwait.suite.artifacts.dump import (
    dump_cluster,
    dump_namespaces,
    dump_unready_cluster,
    format_events,
    is_failing,
)
from pytest_kwait.suite.artifacts.folder import ArtifactFolder
from tests.objects import secret
from tests.suite.fakes import FakeClient, FakeCluster, FakeTransport, _discovered

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Obj = dict[str, Any]
WIDGETS = Resource("example.com", "v1", "widgets", "Widget", True)
GADGETS = Resource("example.com", "v1", "gadgets", "Gadget", True, verbs=frozenset({"create"}))


class LogTransport(FakeTransport):
    """A cluster with containers that write, and a kind of its own."""

    credentials = frozenset({"own-credential"})

    def __init__(self) -> None:
        super().__init__()
        self.written: dict[tuple[str, bool], str] = {}
        self.log_bytes: set[int] = set()

    def _send(
        self, method: str, path: str, query: Mapping[str, Any] | None, body: bytes | None
    ) -> Response:
        if path.endswith("/log"):
            asked = query or {}
            self.log_bytes.add(asked["limitBytes"])
            key = (f"{path.split('/')[-2]}/{asked['container']}", bool(asked["previous"]))
            if key not in self.written:
                raise ApiError("no such container", status=400, method=method, path=path)
            tail = "".join(self.written[key].splitlines(keepends=True)[-asked["tailLines"] :])
            return Response(200, {}, tail.encode()[: asked["limitBytes"]])
        answer = super()._send(method, path, query, body)
        if path == "/apis":
            groups = json.loads(answer.data)
            groups["items"] += [_discovered(WIDGETS), _discovered(GADGETS)]
            return self._answer(groups)
        return answer

    def _read(self, path: str, query: Mapping[str, Any]) -> Response:
        answer = super()._read(path, query)
        if "limit" not in query:
            return answer
        listed = json.loads(answer.data)
        items, listed["items"] = listed["items"], listed["items"][: query["limit"]]
        if len(items) > query["limit"]:
            listed["metadata"]["remainingItemCount"] = len(items) - query["limit"]
        return self._answer(listed)

    def put(self, resource: Resource, namespace: str | None, name: str, **parts: Any) -> None:
        metadata: Obj = {"name": name, "namespace": namespace, "managedFields": [{}]}
        self.objects[resource.path(namespace, name)] = {"metadata": metadata, **parts}


class Place:
    """A cluster and a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.transport = LogTransport()
        self.client: Any = FakeClient(self.transport)

    def dump(self, *namespaces: str, seconds: float = 10.0) -> dict[str, str]:
        files = ArtifactFolder(self.path, make_redactor(()))
        dump_namespaces(self.client, namespaces, files, Deadline.after(seconds))
        files.finish()
        return self.files()

    def files(self) -> dict[str, str]:
        found = sorted(each for each in self.path.rglob("*") if each.is_file())
        return {each.relative_to(self.path).as_posix(): each.read_text() for each in found}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path / "folder")
    made.transport.objects["/api/v1/namespaces/ci"] = {"metadata": {"name": "ci"}}
    return made


def status(name: str, state: Obj, restarts: int = 0, **more: Any) -> Obj:
    return {"containerStatuses": [{"name": name, "state": state, "restartCount": restarts}], **more}


def normal_event(name: str, message: str, **parts: Any) -> Obj:
    about = {"kind": "Pod", "name": name}
    return {"involvedObject": about, "reason": "R", "type": "Normal", "message": message, **parts}


def test_values_of_a_secret_that_comes_while_logs_are_read_are_hidden(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.transport.put(PODS, "ci", "web", status=status("main", {"running": {}}))
    place.transport.written = {("web/main", False): "set gr8-p@ss\n"}
    send = place.transport._send

    def send_late(method: str, path: str, *rest: Any) -> Response:
        answer = send(method, path, *rest)
        if path.endswith("/log"):
            place.transport.put(SECRETS, "ci", "late", **secret(password="gr8-p@ss"))
        return answer

    monkeypatch.setattr(place.transport, "_send", send_late)
    assert place.dump("ci")["ci/logs/web/main.log"] == "set (hidden)\n"


def test_dump_of_a_full_namespace(place: Place) -> None:
    put = place.transport.put
    put(PODS, "ci", "web", status=status("main", {"running": {}}, 2))
    put(PODS, "ci", "calm", status=status("main", {"running": {}}))
    put(PODS, "ci", "early", status=status("main", {"waiting": {}}))
    put(SECRETS, "ci", "keys", data={"a": "c2VjcmV0"})
    put(WIDGETS, "ci", "w", spec={"größe": 3})
    put(WIDGETS, "other", "not-here", spec={})
    put(EVENTS, "ci", "e1", **normal_event("web", "second", lastTimestamp="2026-01-01T00:00:02Z"))
    put(EVENTS, "ci", "e2", **normal_event("web", "first", eventTime="2026-01-01T00:00:01.5Z"))
    place.transport.written = {
        ("web/main", False): "now\ntoken=abcdef\n",
        ("web/main", True): "before\n",
        ("calm/main", False): "",
    }
    found = place.dump("ci")
    assert {
        name: text for name, text in found.items() if "widgets" in name or "Secret" in text
    } == {
        "ci/objects/secrets.yaml": (
            "apiVersion: v1\nkind: Secret\nmetadata:\n  name: keys\n  namespace: ci\n"
            "data:\n  a: (hidden)\n"
        ),
        "ci/objects/widgets.example.com.yaml": (
            "apiVersion: example.com/v1\nkind: Widget\nmetadata:\n  name: w\n  namespace: ci\n"
            "spec:\n  größe: 3\n"
        ),
    }
    assert found["ci/logs/web/main.log"] == "now\ntoken=(hidden)\n"
    assert found["ci/logs/web/main.previous.log"] == "before\n"
    assert found["ci/events.txt"] == (
        "2026-01-01T00:00:01Z  Normal   pod/web  R: first\n"
        "2026-01-01T00:00:02Z  Normal   pod/web  R: second\n"
    )
    assert sorted(found) == [
        "ci/events.txt",
        "ci/logs/web/main.log",
        "ci/logs/web/main.previous.log",
        "ci/namespace.yaml",
        "ci/objects/pods.yaml",
        "ci/objects/secrets.yaml",
        "ci/objects/widgets.example.com.yaml",
    ]
    # A kind that cannot be listed is not asked for.
    assert f"GET {GADGETS.path('ci')}" not in place.transport.requests
    pods = list(yaml.safe_load_all(found["ci/objects/pods.yaml"]))
    assert [pod["metadata"]["name"] for pod in pods] == ["calm", "early", "web"]


def test_failed_requests_are_listed(place: Place) -> None:
    place.transport.put(PODS, "ci", "web", status=status("main", {"running": {}}))
    forbidden = ApiError("not yours", status=403, method="GET", path="/x")
    place.transport.refuse("GET", SECRETS.path("ci"), forbidden, forbidden)
    # A kind that is gone since discovery is none that could not be had.
    gone = ApiError("404 page not found", status=404, method="GET", path="/y")
    place.transport.refuse("GET", WIDGETS.path("ci"), gone)
    found = place.dump("ci", "gone")
    assert found["problems.txt"].splitlines() == [
        "logs of web/main in ci: GET /api/v1/namespaces/ci/pods/web/log: 400: no such container",
        'namespace gone: GET /api/v1/namespaces/gone: 404 NotFound: "gone" not found',
        "secrets in ci: GET /x: 403: not yours",
    ]
    assert "ci/objects/pods.yaml" in found


def test_without_discovery_there_are_pods_events_and_logs(place: Place) -> None:
    place.transport.put(PODS, "ci", "web", status=status("main", {"running": {}}))
    place.transport.written = {("web/main", False): "now\n"}
    place.transport.refuse("GET", "/api", ApiError("no", status=503, method="GET", path="/api"))
    found = place.dump("ci")
    assert found["problems.txt"] == "kinds: GET /api: 503: no\n"
    assert "ci/objects/pods.yaml" in found
    assert "ci/logs/web/main.log" in found


def test_invalid_responses_are_listed(place: Place) -> None:
    class Odd(LogTransport):
        def _read(self, path: str, query: Mapping[str, Any]) -> Response:
            return Response(200, {}, b"<html>") if "secrets" in path else super()._read(path, query)

    odd = Odd()
    odd.objects = place.transport.objects
    place.client = FakeClient(odd)
    assert place.dump("ci")["problems.txt"].startswith("secrets in ci: ")


def test_odd_objects_do_no_harm(place: Place) -> None:
    put = place.transport.put
    put(PODS, "ci", "bare", status=None, spec=None)
    put(EVENTS, "ci", "e", involvedObject=None, message=None, series=None)
    found = place.dump("ci")
    assert "problems.txt" not in found
    assert found["ci/events.txt"] == "?                     ?        ?/?  ?: \n"


def test_large_content_is_cut_with_a_note(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dump, "MAX_LOG_LINES", 3)
    monkeypatch.setattr(dump, "MAX_LOG_READ", 1000)
    monkeypatch.setattr(dump, "MAX_LOG_SIZE", 700)
    monkeypatch.setattr(dump, "SHORT_LOG_LINES", 1)
    monkeypatch.setattr(dump, "MAX_EVENT_LINES", 1)
    monkeypatch.setattr(dump, "MAX_OBJECTS_SIZE", 400)
    monkeypatch.setattr(dump, "MAX_OBJECTS", 2)
    monkeypatch.setattr("pytest_kwait.suite.artifacts.dump.MAX_LOGS", 3)
    for name in ("a", "b", "c", "d"):
        place.transport.put(WIDGETS, "ci", name)
        place.transport.put(EVENTS, "ci", name, **normal_event(name, "x"))
    states = [{"name": name, "state": {"running": {}}} for name in "abcd"]
    place.transport.put(PODS, "ci", "pod", status={"containerStatuses": states})
    place.transport.put(PODS, "ci", "other", spec={"x": "x" * 400})
    place.transport.written = {
        ("pod/a", False): "".join(f"{number}\n" for number in range(10)),
        ("pod/b", False): f"first\n{'x' * 600}\n{'y' * 600}\nlast\n",
        ("pod/c", False): f"{'x' * 300}\n{'y' * 500}\nlast\n",
    }
    found = place.dump("ci")
    assert found["ci/logs/pod/a.log"] == "# cut: the last 3 lines\n7\n8\n9\n"
    assert found["ci/logs/pod/b.log"] == "last\n"
    assert found["ci/logs/pod/c.log"] == (
        f"# cut: the last 700 of 807 bytes\n{'x' * 193}\n{'y' * 500}\nlast\n"
    )
    assert place.transport.log_bytes == {1000}
    assert found["ci/events.txt"].startswith("# cut: the last 1 of 4 events\n")
    assert found["ci/objects/pods.yaml"].startswith("# cut: 1 of 2 pods\napiVersion: v1\n")
    widgets = found["ci/objects/widgets.example.com.yaml"]
    assert widgets.startswith("# cut: 2 of 4 widgets\napiVersion: example.com/v1\n")
    assert widgets.count("\n---\n") == 1
    assert found["problems.txt"] == "logs in ci: 1 of 4 are left out\n"


def test_no_time_is_no_error(place: Place) -> None:
    # The cluster in a dictionary answers anyway; what is written says that it was cut.
    for name in ("a", "b"):
        place.transport.put(PODS, "ci", name)
    found = place.dump("ci", seconds=0.0)
    assert found["ci/objects/pods.yaml"].startswith("# cut: 1 of 2 pods\n")


def test_the_logs_of_failing_containers_come_first() -> None:
    fine = {"metadata": {"name": "fine"}, "status": status("main", {"running": {}})}
    ended = {"terminated": {"exitCode": 1}}
    failed = {"metadata": {"name": "failed"}, "status": status("main", ended)}
    looping = {
        "metadata": {"name": "looping"},
        "status": {
            "containerStatuses": [
                {
                    "name": "main",
                    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                    "lastState": ended,
                    "restartCount": 1,
                }
            ]
        },
    }
    runs = dump.list_container_runs([fine, failed, looping])
    assert [str(run) for run in runs] == [
        "logs of failed/main",
        "logs of looping/main (previous run)",
        "logs of fine/main",
    ]


def test_events_are_lines_in_order() -> None:
    events = [
        {**normal_event("a", "old\nlines"), "firstTimestamp": "2026-01-01T00:00:00Z"},
        {
            **normal_event("b", "a series"),
            "series": {"count": 4, "lastObservedTime": "2026-01-01T00:00:09.000001Z"},
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingComponent": "kubelet",
            "type": "Warning",
        },
        {
            **normal_event("c", "counted"),
            "count": 3,
            "lastTimestamp": "2026-01-01T00:00:05Z",
            "source": {"component": "scheduler"},
        },
    ]
    assert format_events(events) == [
        "2026-01-01T00:00:00Z  Normal   pod/a  R: old lines",
        "2026-01-01T00:00:05Z  Normal   pod/c  R (x3): counted [scheduler]",
        "2026-01-01T00:00:09Z  Warning  pod/b  R (x4): a series [kubelet]",
    ]


def test_a_cluster_that_is_not_ready(place: Place) -> None:
    put = place.transport.put
    put(NODES, None, "node-1")
    ready = [{"type": "Ready", "status": "True"}]
    put(PODS, "kube-system", "good", status=status("a", {"running": {}}, conditions=ready))
    put(PODS, "kube-system", "bad", status=status("b", {"running": {}}))
    put(PODS, "kube-system", "done", status=status("c", {"terminated": {}}, phase="Succeeded"))
    put(EVENTS, "default", "e", **normal_event("node-1", "not ready"))
    put(EVENTS, "kube-system", "e", **normal_event("bad", "not ready"))
    put(DAEMON_SETS, "kube-system", "network")
    put(DEPLOYMENTS, "kube-system", "names")
    place.transport.written = {("bad/b", False): "trouble with own-credential\n"}
    assert dump_cluster(place.client, place.path, Deadline.after(10.0)) == []
    found = place.files()
    assert found["kube-system/logs/bad/b.log"] == "trouble with (hidden)\n"
    assert sorted(found) == [
        "default/events.txt",
        "kube-system/events.txt",
        "kube-system/logs/bad/b.log",
        "kube-system/objects/daemonsets.apps.yaml",
        "kube-system/objects/deployments.apps.yaml",
        "kube-system/objects/pods.yaml",
        "objects/nodes.yaml",
    ]


def test_unready_cluster_dump_lists_failures(place: Place) -> None:
    no = ApiError("no", status=503, method="GET", path="/x")
    place.transport.refuse("GET", NODES.path(None), no)
    assert dump_cluster(place.client, place.path, Deadline.after(10.0)) == []
    assert place.files() == {"problems.txt": "nodes: GET /x: 503: no\n"}


def test_a_bug_is_no_problem_of_the_cluster(place: Place) -> None:
    class Broken(LogTransport):
        def _read(self, path: str, query: Mapping[str, Any]) -> Response:
            if "secrets" in path:
                raise RuntimeError("a bug")
            return super()._read(path, query)

    place.client = FakeClient(Broken())
    with pytest.raises(RuntimeError, match="a bug"):
        place.dump("ci")


def test_interrupted_dump_starts_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dump, "WORKERS", 1)
    gate = threading.Event()
    done = []

    def second() -> None:
        done.append("second")

    def gather() -> None:
        with dump._WorkerPool() as crew:
            crew.start(gate.wait, 10.0)
            waiting: Any = crew.start(second)
            waiting.__self__.add_done_callback(lambda _: gate.set())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gather()
    assert done == []


def test_a_dump_that_cannot_be_written(place: Place) -> None:
    place.transport.put(NODES, None, "node-1")
    place.path.write_text("")
    troubles = dump_cluster(place.client, place.path, Deadline.after(10.0))
    assert troubles == [f"[Errno 20] Not a directory: '{place.path / 'objects'}'"]


def test_a_cluster_is_kept_where_artifacts_go(tmp_path: Path) -> None:
    clients = []

    class Cluster(FakeCluster):
        def client(self) -> Any:
            clients.append(super().client())
            return clients[-1]

    cluster: Any = Cluster()
    (tmp_path / "file").write_text("")
    assert dump_unready_cluster(cluster, None) == ""
    assert (
        dump_unready_cluster(cluster, tmp_path)
        == f"what the cluster is like: {tmp_path / 'cluster'}"
    )
    assert (
        dump_unready_cluster(cluster, tmp_path)
        == f"what the cluster is like: {tmp_path / 'cluster-2'}"
    )
    assert dump_unready_cluster(cluster, tmp_path / "file") == (
        "what the cluster is like could not be written: [Errno 17] File exists: "
        f"'{tmp_path / 'file'}'"
    )
    assert [each.closed for each in clients] == [True, True]


@pytest.mark.parametrize(
    ("phase", "conditions", "failing"),
    [
        ("Running", {"Initialized": "True", "Ready": "True"}, False),
        ("Running", {"Initialized": "True", "Ready": "False"}, True),
        ("Running", {"Initialized": "True"}, True),
        ("Failed", {"Ready": "True"}, True),
        ("Succeeded", {"Ready": "False"}, False),
        ("Pending", {}, True),
    ],
)
def test_pods_with_logs_in_the_dump(phase: str, conditions: dict[str, str], failing: bool) -> None:
    listed = [{"type": type, "status": status} for type, status in conditions.items()]
    assert is_failing({"status": {"phase": phase, "conditions": listed}}) is failing
