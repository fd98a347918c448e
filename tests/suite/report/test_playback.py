from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from pytest_kwait.simulator.protocol.recording.files import RawLine, read_recording
from pytest_kwait.suite.report import playback as module
from pytest_kwait.suite.report.playback import MAX_PLAYBACK, make_playback
from tests.simulator.protocol.recording.lines import (
    LINES,
    NAMESPACE,
    STARTED,
    change,
    log,
    recorded_node,
    recorded_pod,
    recording,
)

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from pytest_kwait.suite.report.records import Playback


def play(folder: Path, *lines: RawLine, hidden: str = "") -> Playback:
    """Return the playback of lines, in which one text is redacted."""
    found = read_recording(recording(folder / "recording.jsonl.gz", lines))
    return make_playback(found, lambda text: text.replace(hidden, "(hidden)") if hidden else text)


def thing(kind: str, name: str, namespace: str = NAMESPACE, **parts: Any) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **parts}


def names(playback: Playback) -> list[str]:
    return [f"{playback.kinds[kind].resource}/{name}" for kind, name in playback.objects]


def story(playback: Playback) -> list[tuple[float, str, list[str] | None]]:
    """Return the changes with names and cells in place of numbers."""
    return [
        (at, playback.objects[number][1], None if row < 0 else playback.rows[row])
        for at, number, row in playback.changes
    ]


def test_a_playback_has_the_states_of_objects_in_the_words_of_kubectl(tmp_path: Path) -> None:
    found = play(tmp_path, *LINES)
    assert (found.started, found.begin, found.end) == (STARTED, 0.0, 6.0)
    # The node does not change.
    assert names(found) == ["pods/web"]
    assert found.kinds[0].columns == ["Ready", "Status", "Restarts"]
    assert story(found) == [
        (1.0, "web", ["0/1", "Pending", "0"]),
        (2.0, "web", ["0/1", "Running", "0"]),
        (4.0, "web", ["0/1", "Failed", "0"]),
        (5.0, "web", None),
    ]
    assert found.steps == [(1.0, "open the shop")]
    assert found.failure == (4.2, "call", "pod t-1/web is not ready")
    assert found.logs == [(2.5, "web/c", "hello"), (3.5, "web/c", "bye")]
    assert found.left_out == {}


def test_times_that_count_on_are_no_changes(tmp_path: Path) -> None:
    def restarted(revision: int) -> dict[str, Any]:
        ended = {"finishedAt": "2026-01-01T00:00:01Z"}
        status = {"restartCount": 2, "lastState": {"terminated": ended}}
        return recorded_pod(revision, containerStatuses=[status])

    job = thing("Job", "j", spec={"completions": 1}, status={"startTime": "2026-01-01T00:00:01Z"})
    cron = thing("CronJob", "c", spec={"schedule": "* * * * *"})
    found = play(
        tmp_path,
        change(1.0, "ADDED", 1, restarted(1)),
        change(2.0, "MODIFIED", 2, restarted(2)),
        change(3.0, "ADDED", 3, job, "jobs.batch"),
        change(4.0, "ADDED", 4, cron, "cronjobs.batch"),
    )
    assert [(kind.resource, kind.columns) for kind in found.kinds] == [
        ("pods", ["Ready", "Status", "Restarts"]),
        ("cronjobs.batch", ["Schedule", "Timezone", "Suspend", "Active"]),
        ("jobs.batch", ["Status", "Completions"]),
    ]
    assert story(found) == [
        (1.0, "web", ["0/1", "Pending", "2"]),
        (3.0, "j", ["Running", "0/1"]),
        (4.0, "c", ["* * * * *", "<none>", "False", "0"]),
    ]


def test_a_playback_has_the_objects_of_the_test_alone(tmp_path: Path) -> None:
    def volume(name: str, namespace: str) -> dict[str, Any]:
        return thing("PersistentVolume", name, "", spec={"claimRef": {"namespace": namespace}})

    def namespace(name: str) -> dict[str, Any]:
        return thing("Namespace", name, "", status={"phase": "Active"})

    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    roles, classes = "clusterroles.rbac.authorization.k8s.io", "storageclasses.storage.k8s.io"
    volumes, addresses = "persistentvolumes", "ipaddresses.networking.k8s.io"
    found = play(
        tmp_path,
        change(0.0, "STATE", 1, recorded_node(), "nodes"),
        change(0.0, "STATE", 2, thing("StorageClass", "old", ""), classes),
        # Of a cluster that starts with the test.
        change(0.1, "ADDED", 3, thing("ClusterRole", "a", ""), roles),
        change(0.2, "ADDED", 4, namespace(NAMESPACE), "namespaces"),
        change(0.2, "ADDED", 5, namespace("t-2"), "namespaces"),
        change(0.3, "ADDED", 6, thing("ConfigMap", "kube-root-ca.crt"), "configmaps"),
        change(0.3, "ADDED", 7, thing("ServiceAccount", "default"), "serviceaccounts"),
        change(0.4, "ADDED", 8, thing("ConfigMap", "mine", data={"a": "b"}), "configmaps"),
        change(0.4, "ADDED", 9, thing("ConfigMap", "foreign", "t-2"), "configmaps"),
        change(0.5, "ADDED", 10, volume("mine", NAMESPACE), volumes),
        change(0.5, "ADDED", 11, volume("foreign", "t-2"), volumes),
        change(0.6, "MODIFIED", 12, {**recorded_node(), "status": ready}, "nodes"),
        change(0.7, "ADDED", 13, thing("IPAddress", "10.0.0.1", ""), addresses),
    )
    assert names(found) == [
        "configmaps/mine",
        "namespaces/t-1",
        "nodes/n-1",
        "persistentvolumes/mine",
    ]
    assert [row[0] for _, name, row in story(found) if name == "n-1" and row] == [
        "Unknown",
        "Ready",
    ]


def test_objects_of_other_namespaces_of_the_test_have_their_namespace(tmp_path: Path) -> None:
    path = recording(
        tmp_path / "recording.jsonl.gz",
        (
            change(1.0, "ADDED", 1, thing("ConfigMap", "a"), "configmaps"),
            change(1.0, "ADDED", 2, thing("ConfigMap", "a", "t-2"), "configmaps"),
        ),
    )
    found = read_recording(path)
    found.header.namespaces.append("t-2")
    assert names(make_playback(found, str)) == ["configmaps/a", "configmaps/t-2/a"]


def test_custom_objects_have_the_columns_of_their_definition(tmp_path: Path) -> None:
    printed = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Ready", "type": "boolean", "jsonPath": ".status.ready"},
        {"name": "Since", "type": "date", "jsonPath": ".status.since"},
        {"name": "Wide", "type": "string", "jsonPath": ".spec.wide", "priority": 1},
        {"name": "Age", "type": "string", "jsonPath": ".spec.age"},
    ]
    versions = [{"name": "v1", "additionalPrinterColumns": printed}, {"name": "v2"}]
    definition = thing("CustomResourceDefinition", "shops.example.com", "")
    definition["spec"] = {"versions": versions}

    def shop(at: float, version: str, resource: str = "shops.example.com") -> RawLine:
        spec = {"size": 3, "wide": "w", "age": "old"}
        obj = {**thing("Shop", f"{version}-{at:g}", spec=spec, status={"ready": True})}
        obj["apiVersion"] = f"example.com/{version}"
        return change(at, "ADDED", int(at), obj, resource)

    found = play(
        tmp_path,
        change(0.0, "STATE", 1, definition, "customresourcedefinitions.apiextensions.k8s.io"),
        shop(1.0, "v1"),
        shop(2.0, "v1", "carts.unknown.com"),
    )
    assert [(kind.resource, kind.columns) for kind in found.kinds] == [
        ("carts.unknown.com", []),
        ("shops.example.com", ["Size", "Ready", "Age"]),
    ]
    assert story(found) == [(1.0, "v1-1", ["3", "true", "old"]), (2.0, "v1-2", [])]


def test_an_object_without_a_needed_field_has_no_cells(tmp_path: Path) -> None:
    found = play(tmp_path, change(1.0, "ADDED", 1, thing("Deployment", "web"), "deployments.apps"))
    assert story(found) == [(1.0, "web", [])]


def test_warning_events_and_cells_are_redacted(tmp_path: Path) -> None:
    def event(at: float, kind: str, type: str, count: int, namespace: str = NAMESPACE) -> RawLine:
        about = {"kind": "Pod", "name": "web"}
        obj = thing(
            "Event", f"e-{type}", namespace, type=type, reason="Failed", count=count,
            message="no\n s3cret", involvedObject=about,
        )  # fmt: skip
        return change(at, kind, 1, obj, "events")

    found = play(
        tmp_path,
        event(1.0, "ADDED", "Warning", 1),
        event(2.0, "MODIFIED", "Warning", 2),
        event(2.0, "ADDED", "Normal", 1),
        event(2.0, "ADDED", "Warning", 1, "t-2"),
        change(3.0, "ADDED", 2, recorded_pod(2, "s3cret")),
        event(4.0, "DELETED", "Warning", 2),
        hidden="s3cret",
    )
    assert found.events == [
        (1.0, "pod/web", "Failed", 1, "no (hidden)"),
        (2.0, "pod/web", "Failed", 2, "no (hidden)"),
    ]
    assert story(found) == [(3.0, "web", ["0/1", "(hidden)", "0"])]


def test_objects_in_rare_states_are_kept(tmp_path: Path) -> None:
    lines = [
        change(1.0, "ADDED", 1, recorded_pod(1, "Running", f"web-{each}")) for each in range(300)
    ]
    lines.append(change(2.0, "MODIFIED", 2, recorded_pod(2, "Failed", "web-123")))
    lines.append(change(3.0, "DELETED", 3, recorded_pod(3, "Running", "web-234")))
    found = play(tmp_path, *lines)
    assert len(found.objects) == 100
    assert found.kinds[0].left_out == 200
    assert {"pods/web-123", "pods/web-234"} < {*names(found)}


def test_old_changes_events_and_lines_are_left_out_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_MAX_CHANGES", "_MAX_EVENTS", "_MAX_LOGS"):
        monkeypatch.setattr(module, name, 3)
    warning = {"type": "Warning", "reason": "R", "message": "m"}
    lines = [
        change(1.0, "ADDED", 1, recorded_pod(1, "Running", "gone")),
        change(1.1, "DELETED", 2, recorded_pod(2, "Running", "gone")),
        *(change(2.0 + at / 10, "MODIFIED", at, recorded_pod(at, f"P{at}")) for at in range(6)),
        *(log(3.0 + at / 10, f"line {at}") for at in range(5)),
        *(
            change(4.0 + at / 10, "ADDED", at, thing("Event", f"e{at}", **warning), "events")
            for at in range(4)
        ),
    ]
    found = play(tmp_path, *lines)
    assert found.begin == 2.2
    assert [(at, row and row[1]) for at, _, row in story(found)] == [
        (2.2, "P2"),
        (2.3, "P3"),
        (2.4, "P4"),
        (2.5, "P5"),
    ]
    assert [text for _, _, text in found.logs] == ["line 2", "line 3", "line 4"]
    assert found.left_out == {"changes": 5, "events": 1, "logs": 2}


def test_a_playback_is_never_larger_than_its_limit(tmp_path: Path) -> None:
    lines = [
        change(1.0 + number / 1000, "ADDED", number, thing("Shop", f"{number:050}"), f"s{kind}.x")
        for kind in range(50)
        for number in range(200)
    ]
    lines += [log(20.0 + number / 1000, "y" * 5000) for number in range(300)]
    for number in range(5000):
        message = {"type": "Warning", "reason": "R", "message": f"{number} {'z' * 900}"}
        lines.append(
            change(21.0, "ADDED", number, thing("Event", f"e{number}", **message), "events")
        )
        lines.append(
            change(22.0 + number / 1000, "MODIFIED", number, recorded_pod(number, f"{number:0900}"))
        )
    found = play(tmp_path, *lines)
    assert 10_000 < len(msgspec.json.encode(found)) <= MAX_PLAYBACK
    assert found.left_out.keys() == {"changes", "events", "logs"}
    assert found.changes[-1][0] == 26.999
