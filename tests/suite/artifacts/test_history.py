from __future__ import annotations

import errno
import math
import os
import queue
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.availability import ClusterEnded
from pytest_kwait.client.resource import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    Resource,
)
from pytest_kwait.client.responses import (
    Item,
    ObjectList,
    PartialObjectMetadata,
    WatchEvent,
    decode_object,
)
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import SYSTEM_CLOCK, Deadline
from pytest_kwait.errors import ApiError
from pytest_kwait.simulator.protocol.recording import journal as journals
from pytest_kwait.simulator.protocol.recording.files import RawLine, read_recording
from pytest_kwait.suite.artifacts import history as watched
from pytest_kwait.suite.artifacts.history import WatchedHistory, read_history
from pytest_kwait.testing import FakeClock
from tests.cache.fakes import PATIENCE, LiveWatch, expired, raw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pytest_kwait.simulator.protocol.recording.files import RecordedLine

BEGUN = 1_767_225_600.0
OLD = "2025-12-31T00:00:00Z"
GEARS = Resource("gears.example", "v1", "gears", "Gear", True)
WIDGETS = Resource("example.com", "v1", "widgets", "Widget", True)
CLUSTER_EVENTS = Resource("events.k8s.io", "v1", "events", "Event", True)
BINDINGS = Resource("", "v1", "bindings", "Binding", True, verbs=frozenset({"create"}))
SIGNERS = Resource("certificates.k8s.io", "v1", "certificatesigningrequests", "Signer", False)


def thing(kind: str, name: str, version: int, namespace: str | None = "t-1", **more: Any) -> Any:
    metadata = {"name": name, "uid": f"u-{name}", "resourceVersion": str(version)}
    if namespace is not None:
        metadata["namespace"] = namespace
    metadata |= more.pop("metadata", {})
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **more}


def place_of(resource: Resource, namespace: str | None) -> str:
    return f"{resource.plural}@{namespace or 'all'}"


class ChangingSession(ApiSession):
    """A session of a cluster that a test changes; it sends no request."""

    def __init__(self, *kinds: Resource) -> None:
        self.time = FakeClock(auto=False)
        self.clock = self.time
        self.kinds = kinds
        self.objects: dict[str, list[dict[str, Any]]] = {}
        self.version = 10
        self.requests: list[str] = []
        self.refused: dict[str, ApiError] = {}
        self.texts: dict[tuple[str, bool], str] = {}
        self.accepted: dict[str, Any] = {}
        self.fields: dict[str, str | None] = {}
        self.watches: dict[str, queue.Queue[LiveWatch]] = {}
        self._lock = threading.Lock()

    def put(self, resource: Resource, *objects: dict[str, Any]) -> None:
        self.objects[resource.qualified] = list(objects)

    def list_kinds(self, *, deadline: Deadline) -> tuple[Resource, ...]:
        self._answer("kinds")
        return self.kinds

    def list(self, resource: Resource, namespace: str | None = None, **more: Any) -> ObjectList:
        self._answer(f"list {place_of(resource, namespace)}")
        shape, fields = more.get("type"), more.get("field_selector") or ""
        items = [
            Item(decode_object(raw(obj), shape), _without_kind(obj))
            for obj in self.objects.get(resource.qualified, ())
            if namespace in (None, obj["metadata"].get("namespace"))
            and fields in ("", f"metadata.name={obj['metadata']['name']}")
        ]
        for item in items:
            item.object.pop("kind", None)
        self.accepted[resource.qualified] = shape
        return ObjectList(items, str(self.version))

    def watch(self, resource: Resource, namespace: str | None = None, **more: Any) -> Any:
        place = place_of(resource, namespace)
        self._answer(f"watch {place}")
        watch = LiveWatch(more.get("type"))
        self.fields[place] = more.get("field_selector")
        self._queue(place).put(watch)
        return watch

    def next_watch(self, place: str) -> LiveWatch:
        return self._queue(place).get(timeout=PATIENCE)

    def logs(self, namespace: str, pod: str, **more: Any) -> str:
        self._answer(f"logs {pod}")
        return self.texts[pod, bool(more["previous"])]

    def _queue(self, place: str) -> queue.Queue[LiveWatch]:
        with self._lock:
            return self.watches.setdefault(place, queue.Queue())

    def _answer(self, request: str) -> None:
        with self._lock:
            self.requests.append(request)
        if request in self.refused:
            raise self.refused[request]


def _without_kind(obj: dict[str, Any]) -> bytes:
    return raw({key: value for key, value in obj.items() if key not in ("kind", "apiVersion")})


def refused(status: int = 403, reason: str = "Forbidden") -> ApiError:
    return ApiError("no", status=status, reason=reason, method="GET", path="/")


class Bench:
    """A history and its cluster."""

    def __init__(self, folder: Path, server: ChangingSession) -> None:
        self.server = server
        self.clock = FakeClock(epoch=BEGUN + 10)
        client: Any = SimpleNamespace(_pytest_kwait_session=server, close=lambda: None)
        self.connects: list[Any] = [client]
        self.history = WatchedHistory(self.connect, folder, BEGUN, self.clock)
        self.folder = folder

    def connect(self) -> Any:
        found = self.connects[0] if len(self.connects) == 1 else self.connects.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    def until(self, holds: Callable[[], object]) -> None:
        deadline = Deadline.after(PATIENCE)
        while not holds():
            assert not deadline.expired
            SYSTEM_CLOCK.wait(threading.Event(), 0.001)

    def lines(self, *namespaces: str, **more: Any) -> list[RawLine]:
        return read_history(
            self.folder,
            namespaces or ("t-1",),
            more.get("session"),
            Deadline.after(PATIENCE),
            more.get("report", pytest.fail),
            started=more.get("started", math.inf),
            awaited=more.get("awaited", ()),
        )

    def changes(self, *namespaces: str, **more: Any) -> list[tuple[str, str]]:
        return [
            (line.type, f"{line.resource}/{line.key}")
            for line in self.lines(*namespaces, **more)
            if line.key
        ]

    def has(self, text: str) -> bool:
        return any(name == text for _, name in self.changes())

    def records(self, name: str, change: str) -> Callable[[], bool]:
        return lambda: (change, name) in self.changes()


@pytest.fixture
def benches(tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def make(*kinds: Resource) -> Bench:
        made.append(Bench(tmp_path / "history", ChangingSession(*kinds)))
        return made[-1]

    yield make
    for bench in made:
        bench.history.stop()


def test_a_watch_of_all_namespaces_records_those_of_the_tests(
    benches: Callable[..., Bench],
) -> None:
    bench = benches(PODS)
    bench.server.put(PODS, thing("Pod", "other", 3, "t-2"))
    bench.history.enter("t-1", is_new=True)
    watch = bench.server.next_watch("pods@all")
    bench.history.enter("t-1", is_new=False)
    watch.put(WatchEvent("ADDED", {}, raw(thing("Pod", "foreign", 11, "t-2"))))
    watch.put(WatchEvent("ADDED", {}, raw(thing("Pod", "web", 12, status={"phase": "Pending"}))))
    watch.put(WatchEvent("MODIFIED", {}, raw(thing("Pod", "web", 13, spec={"a": "<&>é"}))))
    watch.put(WatchEvent("DELETED", {}, raw(thing("Pod", "web", 14))))
    bench.until(bench.records("pods/t-1/web", "DELETED"))
    assert bench.changes() == [
        ("ADDED", "pods/t-1/web"),
        ("MODIFIED", "pods/t-1/web"),
        ("DELETED", "pods/t-1/web"),
    ]
    assert decode_object(bench.lines()[1].object)["spec"] == {"a": "<&>é"}
    assert [line.revision for line in bench.lines()] == [12, 13, 14]

    bench.history.leave("t-1")
    bench.history.enter("t-3", is_new=True)
    bench.history.enter("t-3", is_new=False)
    watch.put(WatchEvent("ADDED", {}, raw(thing("Pod", "web", 15, "t-3"))))
    bench.until(lambda: bench.changes("t-3"))
    assert bench.server.requests == ["kinds", "list pods@t-1", "watch pods@all"]
    assert bench.server.fields["pods@all"] == (
        "metadata.namespace!=kube-system,metadata.namespace!=kube-node-lease"
    )


def test_what_is_older_than_the_run_is_a_state(benches: Callable[..., Bench]) -> None:
    bench = benches(NODES, CONFIG_MAPS)
    old = {"creationTimestamp": OLD}
    bench.server.put(NODES, thing("Node", "n-1", 3, None, metadata=old))
    young = {"creationTimestamp": "2026-01-01T00:00:04Z"}
    bench.server.put(
        CONFIG_MAPS,
        thing("ConfigMap", "a", 4, metadata=old),
        thing("ConfigMap", "b", 5),
        thing("ConfigMap", "c", 6, metadata=young),
    )
    bench.history.enter("t-1", is_new=False)
    bench.until(bench.records("configmaps/t-1/c", "ADDED"))
    bench.until(bench.records("nodes/n-1", "STATE"))
    lines = {line.key: line for line in bench.lines()}
    assert {key: (line.at, line.type) for key, line in lines.items()} == {
        "n-1": (BEGUN, "STATE"),
        "t-1/a": (BEGUN, "STATE"),
        "t-1/b": (BEGUN + 10, "ADDED"),
        "t-1/c": (BEGUN + 4, "ADDED"),
    }
    # Items of lists have no kind.
    assert decode_object(lines["t-1/a"].object)["kind"] == "ConfigMap"
    assert decode_object(lines["n-1"].object)["apiVersion"] == "v1"


def test_a_list_after_a_gap_shows_what_has_changed(benches: Callable[..., Bench]) -> None:
    bench = benches(CONFIG_MAPS)
    first = [thing("ConfigMap", name, version) for name, version in (("a", 3), ("b", 4), ("c", 5))]
    bench.server.put(CONFIG_MAPS, *first)
    bench.history.enter("t-1", is_new=False)
    watch = bench.server.next_watch("configmaps@all")
    bench.server.version = 20
    bench.server.put(CONFIG_MAPS, first[0], thing("ConfigMap", "b", 15), thing("X", "d", 16))
    watch.put(expired())
    bench.server.next_watch("configmaps@all")
    assert bench.changes()[3:] == [
        ("MODIFIED", "configmaps/t-1/b"),
        ("ADDED", "configmaps/t-1/d"),
        ("DELETED", "configmaps/t-1/c"),
    ]
    gone = next(line for line in bench.lines() if line.type == "DELETED")
    assert gone.revision == 20
    assert decode_object(gone.object)["metadata"]["name"] == "c"


def test_a_namespace_that_exists_already_is_listed_in_addition(
    benches: Callable[..., Bench],
) -> None:
    bench = benches(CONFIG_MAPS)
    bench.history.enter("t-1", is_new=True)
    bench.server.next_watch("configmaps@all")
    bench.server.put(CONFIG_MAPS, thing("ConfigMap", "a", 3, "shared"))
    bench.history.enter("shared", is_new=False)
    bench.until(lambda: bench.changes("shared"))
    assert bench.server.requests[3:5] == ["list configmaps@t-1", "list configmaps@shared"]


def test_only_the_metadata_of_secrets_is_read(benches: Callable[..., Bench]) -> None:
    bench = benches(SECRETS)
    notes = {"kubectl.kubernetes.io/last-applied-configuration": "open-sesame", "a": "b"}
    # A server without this form sends whole objects.
    secret = thing("Secret", "db", 12, data={"a": "b3Blbg=="}, metadata={"annotations": notes})
    bench.history.enter("t-1", is_new=True)
    watch = bench.server.next_watch("secrets@all")
    watch.put(WatchEvent("ADDED", {}, raw(secret)))
    partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    watch.put(WatchEvent("MODIFIED", {}, raw({**thing("", "db", 13), **partial})))
    bench.until(bench.records("secrets/t-1/db", "MODIFIED"))
    whole, meta = (decode_object(line.object) for line in bench.lines())
    assert (whole["data"], whole["metadata"]["annotations"]) == ({"a": ""}, {"a": "b"})
    assert (meta["kind"], meta["apiVersion"], meta["metadata"]["name"]) == ("Secret", "v1", "db")
    assert bench.server.accepted["secrets"] is PartialObjectMetadata


def test_a_recording_has_logs_and_hides_values_of_secrets(benches: Callable[..., Bench]) -> None:
    bench = benches(PODS)
    status = {
        "containerStatuses": [
            {
                "name": "c",
                "restartCount": 1,
                "containerID": "i-2",
                "state": {"running": {}},
                "lastState": {"terminated": {"exitCode": 1, "containerID": "i-1"}},
            }
        ]
    }
    pod = thing("Pod", "web", 12, status=status, spec={"text": "say <open-sesame>"})
    bench.server.put(SECRETS, thing("Secret", "db", 3, data={"a": "PG9wZW4tc2VzYW1lPg=="}))
    stamp = "2026-01-01T00:00:1"
    bench.server.texts = {
        ("web", False): f"{stamp}2.5Z two\n{stamp}3Z <open-sesame>\nno time\n",
        ("web", True): f"{stamp}1.000000001Z one\n",
    }
    bench.history.enter("t-1", is_new=True)
    escaped = raw(pod).replace(b"<", b"\\u003c").replace(b">", b"\\u003e")
    bench.server.next_watch("pods@all").put(WatchEvent("ADDED", {}, escaped))
    bench.until(lambda: bench.has("pods/t-1/web"))
    lines = bench.lines(session=bench.server)
    logs = [line for line in lines if line.type == "LOG"]
    assert [(line.at - BEGUN, line.instance, line.text) for line in logs] == [
        (11.0, "i-1", "one\n"),
        (12.5, "i-2", "two\n"),
        (13.0, "i-2", "(hidden)\n"),
    ]
    assert {(line.namespace, line.pod, line.container) for line in logs} == {("t-1", "web", "c")}
    (shown,) = [line for line in lines if line.resource]
    assert decode_object(shown.object)["spec"] == {"text": "say (hidden)"}


def test_a_log_is_divided_at_line_feeds_alone(benches: Callable[..., Bench]) -> None:
    bench = benches(PODS)
    state = {"containerStatuses": [{"name": "c", "state": {"running": {}}}]}
    bench.history.enter("t-1", is_new=True)
    pod = raw(thing("Pod", "web", 12, status=state))
    bench.server.next_watch("pods@all").put(WatchEvent("ADDED", {}, pod))
    bench.until(lambda: bench.has("pods/t-1/web"))
    stamp = "2026-01-01T00:00:12Z"
    bar = "10%\r\x0b\x0c\x85\u2028100%\r\n"
    bench.server.texts = {("web", False): f"{stamp} {bar}{stamp} done"}
    logs = [line.text for line in bench.lines(session=bench.server) if line.type == "LOG"]
    assert logs == [bar, "done"]


def test_what_cannot_be_read_for_a_recording_is_a_problem(benches: Callable[..., Bench]) -> None:
    bench = benches(PODS)
    state = {"containerStatuses": [{"name": "c", "state": {"running": {}}}]}
    bench.history.enter("t-1", is_new=True)
    pod = raw(thing("Pod", "web", 12, status=state))
    bench.server.next_watch("pods@all").put(WatchEvent("ADDED", {}, pod))
    bench.until(lambda: bench.has("pods/t-1/web"))
    bench.server.refused = {"list secrets@t-1": refused(), "logs web": refused()}
    problems: list[str] = []
    lines = bench.lines(session=bench.server, report=problems.append)
    assert [line.type for line in lines] == ["ADDED"]
    assert [text.removesuffix(" no") for text in problems] == [
        "logs of web/c: GET /: 403 Forbidden:",
        "values of Secrets in t-1 are hidden only if the run knows them: GET /: 403 Forbidden:",
    ]


def test_without_rights_for_all_namespaces_each_has_a_watch(
    benches: Callable[..., Bench],
) -> None:
    bench = benches(CONFIG_MAPS)
    bench.server.refused = {"watch configmaps@all": refused()}
    bench.history.enter("t-1", is_new=True)
    bench.history.enter("t-1", is_new=False)
    watch = bench.server.next_watch("configmaps@t-1")
    watch.put(WatchEvent("ADDED", {}, raw(thing("ConfigMap", "a", 12))))
    bench.until(lambda: bench.has("configmaps/t-1/a"))
    assert bench.history.problems() == []
    bench.history.leave("t-1")
    assert watch.closed.wait(PATIENCE)
    bench.history.enter("t-2", is_new=True)
    bench.history.enter("t-2", is_new=False)
    bench.server.next_watch("configmaps@t-2")
    assert bench.server.requests.count("watch configmaps@all") == 1


def test_what_may_not_be_read_is_left_out(benches: Callable[..., Bench]) -> None:
    bench = benches(CONFIG_MAPS, NODES)
    for place in ("configmaps@t-1", "nodes@all"):
        bench.server.refused[f"list {place}"] = refused()
    bench.history.enter("t-1", is_new=False)
    line = "configmaps, nodes left out: they cannot be listed and watched (forbidden)"
    bench.until(lambda: bench.history.problems() == [line])
    sent = len(bench.server.requests)
    bench.history.enter("t-2", is_new=False)
    assert len(bench.server.requests) == sent


def test_custom_resources_are_watched_up_to_a_number(
    benches: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched, "MAX_CUSTOM_RESOURCES", 2)
    others = [
        Resource(f"{name}.example", "v1", name, name.title(), True) for name in ("gears", "nuts")
    ]
    bench = benches(*others, WIDGETS, CONFIG_MAPS, EVENTS, CLUSTER_EVENTS, BINDINGS, SIGNERS)
    bench.history.enter("t-1", is_new=True)
    for plural in ("configmaps", "events", "gears", "nuts"):
        bench.server.next_watch(f"{plural}@all")
    assert bench.history.problems() == [
        "widgets.example.com left out: there are more than 2 custom resources"
    ]
    watches = sorted(each for each in bench.server.requests if each.startswith("watch"))
    assert watches == [f"watch {name}@all" for name in ("configmaps", "events", "gears", "nuts")]


def test_removed_custom_resources_take_no_place(
    benches: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched, "MAX_CUSTOM_RESOURCES", 1)
    bench = benches(GEARS, CUSTOM_RESOURCE_DEFINITIONS)
    bench.server.refused["list gears@t-1"] = refused(404, "NotFound")
    bench.history.enter("t-1", is_new=True)
    let_gears_be_removed(bench)
    crds = bench.server.next_watch("customresourcedefinitions@all")
    crds.put(WatchEvent("ADDED", {}, raw(widget_definition(12, established=True))))
    bench.server.next_watch("widgets@all")
    bench.until(lambda: bench.history.problems() == [])


def test_a_left_out_resource_takes_the_place_of_a_removed_one(
    benches: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched, "MAX_CUSTOM_RESOURCES", 1)
    bench = benches(GEARS, WIDGETS)
    bench.server.refused["list gears@t-1"] = refused(404, "NotFound")
    bench.history.enter("t-1", is_new=True)
    left_out = "widgets.example.com left out: there are more than 1 custom resources"
    bench.until(lambda: left_out in bench.history.problems())
    let_gears_be_removed(bench)
    bench.server.next_watch("widgets@all")
    bench.until(lambda: bench.history.problems() == [])


def let_gears_be_removed(bench: Bench) -> None:
    for sent in range(1, 5):
        bench.until(lambda sent=sent: bench.server.requests.count("list gears@t-1") == sent)  # type: ignore[misc] # its own default
        if sent < 4:
            bench.server.time.until_blocked()
            bench.server.time.advance(60)


def widget_definition(version: int, *, established: bool) -> dict[str, Any]:
    names = {"plural": "widgets", "kind": "Widget"}
    served = [
        {"name": "v1alpha1", "served": False},
        {"name": "v1beta1", "served": True},
        {"name": "v1", "served": True, "storage": True},
    ]
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": served}
    conditions = [{"type": "Established", "status": str(established)}]
    status = {"conditions": conditions}
    return thing("CRD", "widgets.example.com", version, None, spec=spec, status=status)  # type: ignore[no-any-return] # one object


def test_a_definition_of_the_test_is_watched_and_recorded(
    benches: Callable[..., Bench],
) -> None:
    bench = benches(CUSTOM_RESOURCE_DEFINITIONS)
    bench.history.enter("t-1", is_new=True)
    crds = bench.server.next_watch("customresourcedefinitions@all")
    crds.put(WatchEvent("ADDED", {}, raw(widget_definition(12, established=False))))
    crds.put(WatchEvent("MODIFIED", {}, raw(widget_definition(13, established=True))))
    crds.put(WatchEvent("MODIFIED", {}, raw(widget_definition(14, established=True))))
    widgets = bench.server.next_watch("widgets@all")
    assert bench.changes() == []
    widgets.put(WatchEvent("ADDED", {}, raw(thing("Widget", "w", 15))))
    # Two threads write: only the order of one resource's lines is known.
    bench.until(lambda: len(bench.changes()) == 4)
    name = "customresourcedefinitions.apiextensions.k8s.io/widgets.example.com"
    assert [change for change, about in bench.changes() if about == name] == [
        "ADDED",
        "MODIFIED",
        "MODIFIED",
    ]
    assert ("ADDED", "widgets.example.com/t-1/w") in bench.changes()
    assert bench.server.requests.count("watch widgets@all") == 1


WIDGET_DEFINITION = "customresourcedefinitions.apiextensions.k8s.io/widgets.example.com"


@pytest.mark.parametrize(
    ("more", "is_kept"),
    [
        ({}, False),
        ({"started": 0.0}, True),
        ({"started": BEGUN + 1000}, False),
        ({"awaited": ["widgets.example.com t-1/w"]}, True),
        ({"awaited": ["Widget t-1/w"]}, True),
        ({"awaited": ["widget/w", "pod t-1/web"]}, True),
        ({"awaited": ["pod t-1/web"]}, False),
    ],
)
def test_a_definition_without_objects_is_recorded_if_it_is_the_test_s(
    benches: Callable[..., Bench], more: dict[str, Any], is_kept: bool
) -> None:
    bench = benches(CUSTOM_RESOURCE_DEFINITIONS)
    bench.history.enter("t-1", is_new=True)
    crds = bench.server.next_watch("customresourcedefinitions@all")
    crds.put(WatchEvent("ADDED", {}, raw(widget_definition(12, established=True))))
    bench.server.next_watch("widgets@all")
    bench.until(lambda: bench.changes(started=0.0))
    assert bench.changes(**more) == ([("ADDED", WIDGET_DEFINITION)] if is_kept else [])


def test_definitions_without_objects_are_limited(
    benches: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched, "_MAX_UNUSED", 2)
    bench = benches(CUSTOM_RESOURCE_DEFINITIONS)
    bench.history.enter("t-1", is_new=True)
    crds = bench.server.next_watch("customresourcedefinitions@all")
    for number in range(4):
        definition = widget_definition(12 + number, established=False)
        definition["metadata"]["name"] = f"w{number}.example.com"
        crds.put(WatchEvent("ADDED", {}, raw(definition)))
        bench.until(lambda number=number: bench.changes(awaited=[f"w{number}.example.com"]))  # type: ignore[misc] # its own default
    assert len(bench.changes(started=0.0)) == 2


def test_a_resource_that_is_not_served_yet_is_tried_again(
    benches: Callable[..., Bench],
) -> None:
    bench = benches(WIDGETS)
    bench.server.refused["list widgets@t-1"] = refused(404, "NotFound")
    bench.history.enter("t-1", is_new=True)
    bench.server.time.until_blocked()
    bench.server.refused.clear()
    bench.server.time.advance(60)
    bench.server.next_watch("widgets@all")


def test_a_removed_resource_is_left_alone(benches: Callable[..., Bench]) -> None:
    bench = benches(WIDGETS)
    bench.server.refused["list widgets@t-1"] = refused(404, "NotFound")
    bench.history.enter("t-1", is_new=True)
    for sent in range(2, 5):
        bench.until(lambda sent=sent: len(bench.server.requests) == sent)  # type: ignore[misc] # its own default
        bench.server.time.until_blocked()
        bench.server.time.advance(60)
    bench.until(lambda: len(bench.server.requests) == 5)
    bench.history.enter("t-1", is_new=False)
    bench.history.settle(1.0)
    assert bench.history.problems() == []
    assert bench.server.requests == ["kinds", *["list widgets@t-1"] * 4]


def test_the_namespace_itself_is_in_its_journal(benches: Callable[..., Bench]) -> None:
    bench = benches(NAMESPACES)
    bench.history.enter("t-1", is_new=True)
    watch = bench.server.next_watch("namespaces@all")
    watch.put(WatchEvent("ADDED", {}, raw(thing("Namespace", "t-2", 11, None))))
    watch.put(WatchEvent("ADDED", {}, raw(thing("Namespace", "t-1", 12, None))))
    bench.until(lambda: bench.has("namespaces/t-1"))
    assert bench.changes() == [("ADDED", "namespaces/t-1")]


def test_a_failing_test_waits_for_the_watch_of_its_namespace(
    benches: Callable[..., Bench],
) -> None:
    """A busy server may send it after what is in it, and later than the others are quiet."""
    bench = benches(NAMESPACES)
    bench.history.enter("t-1", is_new=True)
    watch = bench.server.next_watch("namespaces@all")
    bench.history.enter("t-1", is_new=False)
    before = bench.clock.monotonic()
    bench.history.settle(1.0)
    assert bench.clock.monotonic() - before == pytest.approx(1.0, abs=0.03)

    watch.put(WatchEvent("ADDED", {}, raw(thing("Namespace", "t-1", 12, None))))
    bench.until(lambda: bench.has("namespaces/t-1"))
    before = bench.clock.monotonic()
    bench.history.settle(1.0)
    assert bench.clock.monotonic() - before == pytest.approx(0.2, abs=0.03)


def test_a_large_journal_is_divided_with_its_state(
    benches: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "_MAX_PART", 3000)
    bench = benches(CONFIG_MAPS)
    bench.history.enter("t-1", is_new=True)
    watch = bench.server.next_watch("configmaps@all")
    watch.put(WatchEvent("ADDED", {}, raw(thing("ConfigMap", "kept", 11, data={"a": "b"}))))
    for version in range(12, 60):
        bench.clock.advance(1)
        watch.put(WatchEvent("MODIFIED", {}, raw(thing("ConfigMap", "a", version))))
    watch.put(WatchEvent("DELETED", {}, raw(thing("ConfigMap", "kept", 60))))
    bench.until(bench.records("configmaps/t-1/kept", "DELETED"))
    files = sorted(path.name for path in (bench.folder / "namespaces").iterdir())
    assert files == ["t-1.jsonl", "t-1.older.jsonl"]
    versions = [line.revision for line in bench.lines() if line.key == "t-1/a"]
    assert versions == list(range(versions[0], 60))
    assert 1 < len(versions) < 48
    kept = [line for line in bench.lines() if line.key == "t-1/kept"]
    assert {line.revision: decode_object(line.object).get("data") for line in kept} == {
        11: {"a": "b"},
        60: None,
    }


def test_the_journal_of_a_namespace_stays_for_a_minute(benches: Callable[..., Bench]) -> None:
    bench = benches()
    bench.history.enter("t-1", is_new=True)
    bench.history.leave("t-1")
    path = bench.folder / "namespaces" / "t-1.jsonl"
    bench.clock.advance(59)
    bench.history.enter("t-2", is_new=True)
    assert path.exists()
    bench.clock.advance(1)
    bench.history.enter("t-3", is_new=True)
    assert not path.exists()


def test_a_full_disk_ends_the_recording_alone(
    benches: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(_file: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    bench = benches(PODS)
    bench.history.enter("t-1", is_new=True)
    watch = bench.server.next_watch("pods@all")
    monkeypatch.setattr(os, "write", write)
    watch.put(WatchEvent("ADDED", {}, raw(thing("Pod", "web", 12))))
    assert watch.closed.wait(PATIENCE)
    monkeypatch.undo()
    bench.history.enter("t-2", is_new=True)
    assert bench.history.problems() == [f"{bench.folder}: No space left on device"]


def test_a_cluster_that_does_not_answer_is_tried_again(benches: Callable[..., Bench]) -> None:
    bench = benches(PODS)
    bench.connects.insert(0, refused(0, "ConnectionRefused"))
    bench.history.enter("t-1", is_new=True)
    bench.server.next_watch("pods@all")
    assert bench.history.problems() == []


def test_a_failing_test_does_not_wait_for_a_dead_cluster(benches: Callable[..., Bench]) -> None:
    bench = benches(PODS)
    bench.clock = FakeClock(epoch=BEGUN)
    bench.server.refused = {
        "list pods@t-1": ClusterEnded("it has ended", status=0, reason="Ended", path="/")
    }
    bench.history.enter("t-1", is_new=True)
    # Not before the cluster has answered: time does not pass for the thread that asks it.
    bench.until(lambda: "pods left out" in str(bench.history.problems()))
    before = bench.clock.monotonic()
    bench.history.settle(2.0)
    assert bench.clock.monotonic() - before < 1
    assert [text.partition(":")[0] for text in bench.history.problems()] == ["pods left out"]


def test_a_failing_test_waits_until_its_changes_are_written(
    benches: Callable[..., Bench],
) -> None:
    bench = benches(PODS)
    before = bench.clock.monotonic()
    bench.history.settle(1.0)
    assert bench.clock.monotonic() - before == pytest.approx(0.2, abs=0.03)
    bench.server.refused = {"kinds": refused(0, "ConnectionRefused")}
    bench.history.enter("t-1", is_new=True)
    text = "nothing is recorded yet: GET /: ConnectionRefused: no"
    bench.until(lambda: bench.history.problems() == [text])


def test_resources_that_were_never_listed_are_named(benches: Callable[..., Bench]) -> None:
    bench = benches(PODS, NODES, CONFIG_MAPS)
    for path in ("pods@t-1", "nodes@all"):
        bench.server.refused[f"list {path}"] = ApiError(
            "try again", status=503, reason="ServiceUnavailable", method="GET", path=f"/{path}"
        )
    bench.history.enter("t-1", is_new=True)
    bench.server.next_watch("configmaps@all")
    line = "nodes, pods left out: not listed yet: 503 ServiceUnavailable: try again"
    bench.until(lambda: bench.history.problems() == [line])


def test_lists_that_hang_are_named(
    benches: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = benches(PODS)
    asked, hung = threading.Event(), threading.Event()
    original = bench.server.list

    def hang(*given: Any, **more: Any) -> ObjectList:
        asked.set()
        assert hung.wait(PATIENCE)
        return original(*given, **more)

    monkeypatch.setattr(bench.server, "list", hang)
    bench.history.enter("t-1", is_new=True)
    assert asked.wait(PATIENCE)
    line = "pods left out: not listed yet: the cluster has not answered"
    assert bench.history.problems() == [line]
    hung.set()
    bench.server.next_watch("pods@all")
    assert bench.history.problems() == []


def test_a_cluster_that_hangs_at_first_is_named(
    benches: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = benches(PODS)
    asked, hung = threading.Event(), threading.Event()

    def hang(**_: Any) -> tuple[Resource, ...]:
        asked.set()
        assert hung.wait(PATIENCE)
        return (PODS,)

    monkeypatch.setattr(bench.server, "list_kinds", hang)
    assert bench.history.problems() == []
    bench.history.enter("t-1", is_new=True)
    assert asked.wait(PATIENCE)
    assert bench.history.problems() == ["nothing is recorded yet: the cluster has not answered"]
    hung.set()
    bench.server.next_watch("pods@all")


def test_workers_of_a_killed_run_are_read_together(tmp_path: Path) -> None:
    for worker in ("gw0", "gw1"):
        bench = Bench(tmp_path / worker, ChangingSession(PODS))
        namespace = f"t-{worker}"
        bench.history.enter(namespace, is_new=True)
        pod = raw(thing("Pod", "web", 12, namespace))
        bench.server.next_watch("pods@all").put(WatchEvent("ADDED", {}, pod))
        bench.until(lambda bench=bench, name=namespace: bench.changes(name))  # type: ignore[misc] # its own defaults
        bench.history.stop()
    found = read_recording(tmp_path)
    assert found.header.namespaces == ["t-gw0", "t-gw1"]
    assert [line.key for line in found.lines] == ["t-gw0/web", "t-gw1/web"]
    one = read_recording(tmp_path / "gw1" / "namespaces" / "t-gw1.jsonl")
    assert _keys(one.lines) == ["t-gw1/web"]


def _keys(lines: list[RecordedLine]) -> list[str]:
    return [line.key for line in lines]
