from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.protocol.recording.files import read_recording
from pytest_kwait.simulator.protocol.recording.timeline import format_timeline
from tests.simulator.protocol.recording.lines import change, recorded_pod, recording

if TYPE_CHECKING:
    from pathlib import Path


def test_changes_stand_among_steps_and_verdicts(tmp_path: Path) -> None:
    found = read_recording(recording(tmp_path / "a.gz"))
    assert list(format_timeline(found, 6.0)) == [
        "    1.000s  pods/web created",
        "    1.000s  step open the shop",
        "    1.200s  wait for pod t-1/web to be ready",
        "    1.300s    pod t-1/web: Pending",
        "    2.000s  pods/web status.phase: Pending → Running; status.containerStatuses[c].name: "
        "none → c; status.containerStatuses[c].state: none → running",
        "    4.000s  pods/web status.phase: Running → Failed",
        "    4.200s  wait for pod t-1/web to be ready: failed early",
        "    4.200s  failure in call: pod t-1/web is not ready",
        "    5.000s  pods/web deleted",
    ]
    assert len(list(format_timeline(found, 1.25))) == 3


def test_events_leases_and_other_namespaces(tmp_path: Path) -> None:
    event = {
        "metadata": {"name": "e", "namespace": "t-1"},
        "involvedObject": {"kind": "Pod", "name": "web"},
        "type": "Warning",
        "reason": "BackOff",
        "message": "Back-off\nrestarting",
        "count": 2,
    }
    lease = {"metadata": {"name": "n-1", "namespace": "kube-node-lease"}}
    other = {"metadata": {"name": "x", "namespace": "t-2"}}
    node = {"metadata": {"name": "n-2"}}
    lines = (
        change(1.0, "ADDED", 2, event, "events"),
        change(2.0, "MODIFIED", 3, lease, "leases.coordination.k8s.io"),
        change(3.0, "ADDED", 4, other),
        change(4.0, "ADDED", 5, node, "nodes"),
        change(5.0, "DELETED", 6, event, "events"),
    )
    found = read_recording(recording(tmp_path / "a.gz", lines))
    assert list(format_timeline(found, 6.0)) == [
        "    1.000s  event Warning BackOff (x2) of pod/web: Back-off restarting",
        "    4.000s  nodes/n-2 created",
    ]


def test_changes_of_lists_and_many_fields(tmp_path: Path) -> None:
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": "x"}]
    many: dict[str, Any] = dict.fromkeys("abcdef", 1)
    lines = (
        change(1.0, "ADDED", 2, recorded_pod(2)),
        change(2.0, "MODIFIED", 3, recorded_pod(3, conditions=conditions)),
        change(
            3.0, "MODIFIED", 4, recorded_pod(4, conditions=[{**conditions[0], "status": "False"}])
        ),
        change(4.0, "MODIFIED", 5, recorded_pod(5, **many)),
        change(5.0, "MODIFIED", 6, recorded_pod(6, **many)),
    )
    found = read_recording(recording(tmp_path / "a.gz", lines))
    assert list(format_timeline(found, 6.0)) == [
        "    1.000s  pods/web created",
        "    2.000s  pods/web status.conditions[Ready]: True",
        "    3.000s  pods/web status.conditions[Ready].status: True → False",
        "    4.000s  pods/web status.a: none → 1; status.b: none → 1; status.c: none → 1; "
        "status.d: none → 1; and 3 more",
    ]


def test_removed_elements_of_lists(tmp_path: Path) -> None:
    two = [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]
    ready = {"type": "Ready", "status": "True"}
    lines = (
        change(1.0, "ADDED", 2, recorded_pod(2, addresses=two, conditions=[ready])),
        change(2.0, "MODIFIED", 3, recorded_pod(3, addresses=two[:1], conditions=[ready])),
        change(3.0, "MODIFIED", 4, recorded_pod(4, addresses=[], conditions=[])),
        change(4.0, "MODIFIED", 5, recorded_pod(5, addresses=two[1:])),
        change(5.0, "MODIFIED", 6, recorded_pod(6)),
    )
    found = read_recording(recording(tmp_path / "a.gz", lines))
    assert list(format_timeline(found, 6.0))[1:] == [
        "    2.000s  pods/web status.addresses[1]: removed",
        "    3.000s  pods/web status.addresses[0]: removed; status.conditions[Ready]: removed",
        "    4.000s  pods/web status.addresses[0].ip: none → 10.0.0.2",
        "    5.000s  pods/web status.addresses[0]: removed",
    ]
