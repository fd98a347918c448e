from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.simulator.protocol.recording.files import Recording, read_recording
from pytest_kwait.suite.replayed_wait import parse_wait, run_wait
from tests.simulator.protocol.recording.lines import (
    CRDS,
    LINES,
    change,
    definition,
    recorded_node,
    recorded_pod,
    recording,
    thing,
)

if TYPE_CHECKING:
    from pathlib import Path

_FORM = "use a call with plain values, as 'wait_for_pod_ready(\"web\", grace=120)'"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("wait_for_pod_ready", _FORM),
        ("kwait.wait_for_pod_ready('web')", _FORM),
        ("wait_for_pod_ready(name)", _FORM),
        ("wait_for_pod_ready('web'", _FORM),
        ("import os", _FORM),
        (
            "wait_for_pod_redy('web')",
            "there is no wait wait_for_pod_redy; did you mean wait_for_pod_ready?",
        ),
        ("print('web')", "there is no wait print; docs/waits.md lists the waits"),
        (
            "wait_for_cache_sync('pods')",
            "wait_for_cache_sync is about informers, which have no recording",
        ),
        ("wait_for_pod_ready('web', mode='poll')", "leave mode out: a recording is polled"),
        ("wait_for_pod_ready('web', poll='1s')", "leave poll out: a recording is polled"),
    ],
)
def test_calls_of_no_wait_are_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_wait(text, "--wait")
    assert (caught.value.what, caught.value.valid) == ("--wait", why)


def test_arguments_are_those_of_the_wait() -> None:
    call = parse_wait(" wait_for_pod_ready('web', grace='2m', timeout=30, namespace='x')", "--wait")
    assert (call.wait.name, call.args, dict(call.options), call.namespace, call.limit) == (
        "wait_for_pod_ready",
        ("web",),
        {"grace": "2m"},
        "x",
        30.0,
    )
    assert parse_wait("wait_for_pod_ready('web')", "--wait").limit == 300.0
    with pytest.raises(InvalidArgument) as caught:
        parse_wait("wait_for_pod_ready()", "--wait")
    assert "missing a required argument: 'name'" in str(caught.value)


@pytest.fixture
def found(tmp_path: Path) -> Recording:
    return read_recording(recording(tmp_path / "a.gz"))


def test_a_wait_is_met_in_recorded_time(found: Recording) -> None:
    is_met, lines = run_wait(found, parse_wait("wait_for_pod_running('web')", "--wait"), 0.0)
    assert is_met
    assert lines == [
        "    0.000s  wait for pod t-1/web to get to phase Running",
        "    0.000s    not found yet",
        "    1.000s    Pending",
        "    2.000s    met",
        "    2.000s  met",
    ]


def test_a_wait_fails_early_as_it_would_have(found: Recording) -> None:
    is_met, lines = run_wait(found, parse_wait("wait_for_pod_success('web')", "--wait"), 2.5)
    assert not is_met
    assert lines[0] == "    2.500s  wait for pod t-1/web to succeed"
    assert lines[-1].startswith("    4.000s  failed early: pod t-1/web can no longer succeed: ")


def test_a_wait_ends_with_its_limit_or_the_recording(found: Recording) -> None:
    call = parse_wait("wait_for_pod_running('other', timeout='1.5s')", "--wait")
    assert run_wait(found, call, 1.0) == (
        False,
        [
            "    1.000s  wait for pod t-1/other to get to phase Running",
            "    1.000s    not found yet",
            "    2.500s  not met: its limit of 1.5s ends",
        ],
    )
    call = parse_wait("wait_for_pod_running('other')", "--wait")
    assert run_wait(found, call, 1.0)[1][-1] == "    6.000s  not met: the recording ends"


def test_grace_shrinks_with_the_recorded_cluster(tmp_path: Path) -> None:
    lines = (
        LINES[0],
        change(1.0, "ADDED", 5, recorded_pod(5, containerStatuses=[_stuck()])),
        change(20.0, "DELETED", 7, recorded_pod(7)),
    )
    found = read_recording(recording(tmp_path / "a.gz", lines, 30.0))
    found.header.time_scale = 0.1
    is_met, told = run_wait(found, parse_wait("wait_for_pod_ready('web')", "--wait"), 1.0)
    assert not is_met
    assert "final if it holds for 4.5s" in told[1]
    assert "failed early: " in told[-1]
    assert 5.4 < float(told[-1].split("s")[0]) < 5.7


def _stuck() -> dict[str, object]:
    state = {"waiting": {"reason": "CreateContainerConfigError", "message": "no config map"}}
    return {
        "name": "c",
        "ready": False,
        "restartCount": 0,
        "state": state,
        "image": "",
        "imageID": "",
    }


def test_a_recording_without_a_namespace_needs_one_in_the_call(found: Recording) -> None:
    bare = found._replace(header=msgspec.structs.replace(found.header, namespaces=[]))
    with pytest.raises(InvalidArgument) as caught:
        run_wait(bare, parse_wait("wait_for_pod_ready('web')", "--wait"), 0.0)
    assert str(caught.value) == (
        "namespace=None is not valid: name one, as the recording has none of a test"
    )
    call = parse_wait("wait_for_pod_running('web', namespace='t-1')", "--wait")
    assert run_wait(bare, call, 0.0)[0]
    call = parse_wait("wait_for_node_ready('n-1', timeout=1)", "--wait")
    assert recorded_node()["metadata"]["name"] in run_wait(bare, call, 0.0)[1][0]


def test_a_wait_knows_kinds_that_are_defined_during_the_recording(tmp_path: Path) -> None:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    lines = (
        change(1.0, "ADDED", 2, definition(established=False), CRDS),
        change(2.0, "MODIFIED", 3, definition(), CRDS),
        change(3.0, "ADDED", 4, thing(), "things.example.com"),
        change(4.0, "MODIFIED", 5, thing(status=ready), "things.example.com"),
    )
    found = read_recording(recording(tmp_path / "a.gz", lines, 6.0))
    for target in ("thing/one", "things.example.com/one"):
        call = parse_wait(f"wait_for({target!r}, 'condition=Ready')", "--wait")
        is_met, told = run_wait(found, call, 0.0)
        assert is_met
        assert told == [
            "    0.000s  wait for thing t-1/one to have condition Ready=True",
            "    0.000s    not found yet",
            "    3.000s    no condition Ready yet",
            "    4.000s    met",
            "    4.000s  met",
        ]
    call = parse_wait("wait_for('thing/other', 'create')", "--wait")
    assert run_wait(found, call, 0.0)[1][-1] == "    6.000s  not met: the recording ends"


def test_a_wait_ends_with_the_definition_of_its_kind(tmp_path: Path) -> None:
    lines = (
        change(1.0, "ADDED", 2, definition(), CRDS),
        change(2.0, "DELETED", 3, definition(), CRDS),
    )
    found = read_recording(recording(tmp_path / "a.gz", lines, 6.0))
    call = parse_wait("wait_for('thing/one', 'create')", "--wait")
    is_met, told = run_wait(found, call, 0.0)
    assert not is_met
    assert told[-1] == (
        "    2.000s  failed early: thing t-1/one can no longer get created: the "
        "CustomResourceDefinition things.example.com was deleted"
    )
    call = parse_wait("wait_for('wonder/one', 'create')", "--wait")
    with pytest.raises(InvalidArgument) as caught:
        run_wait(found, call, 0.0)
    assert str(caught.value).startswith("kind='wonder' is not valid: the server has no such kind")
