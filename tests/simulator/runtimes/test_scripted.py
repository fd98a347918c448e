"""Scripted containers: rules, then annotations, then KWOK's keys, then the command."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.protocol.container_scripts import (
    Script,
    ScriptError,
    ScriptRule,
    parse_script,
)
from pytest_kwait.simulator.selectors import parse_labels
from tests.simulator.cluster import NAMESPACE, Cluster, pod_spec

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

_FAILED = "pod-container-running-failed.stage.kwok.x-k8s.io"


def _create(cluster: Cluster, annotations: Obj, *command: str, **fields: Any) -> None:
    labels = fields.pop("labels", {})
    spec = pod_spec(*(command or ("sleep", "99")), **fields)
    cluster.create("pods", "p", spec, annotations=annotations, labels=labels)


def _status(cluster: Cluster) -> Obj:
    found: Obj = cluster.get("pods", "p")["status"]["containerStatuses"][0]
    return found


def _events(cluster: Cluster) -> list[str]:
    return [one for one in cluster.events("p") if one.startswith("InvalidScript")]


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("", Script()),
        (
            "pull=500ms start=200ms ready=1s run=3s exit=4",
            Script(pull=0.5, start=0.2, ready=1.0, run=3.0, exit=4),
        ),
        (
            "start=never ready=never run=forever",
            Script(start=math.inf, ready=math.inf, run=math.inf),
        ),
        ("pull-error='not found' reason=Oops", Script(pull_error="not found", reason="Oops")),
        ("log='a b' log=c message=x", Script(log=("a b", "c"), message="x")),
    ],
)
def test_scripts_are_parsed_from_keys_and_values(text: str, script: Script) -> None:
    assert parse_script(text) == script


_VALID = (
    "is none of pull, pull-error, start, ready, run, exit, reason, message, log, "
    "each with = and its value"
)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("soon", f"'soon' {_VALID}"),
        ("sleep=3", f"'sleep=3' {_VALID}"),
        ("run=x", "run='x' is not a duration: use a duration as 500ms, 3s or 1m30s, or forever"),
        ("pull=never", "pull='never' is not a duration: use a duration as 500ms, 3s or 1m30s"),
        (
            "run=-1s",
            "run='-1s' is not a duration: use a duration as 500ms, 3s or 1m30s, or forever",
        ),
        ("exit=256", "exit='256' is not an integer from 0 to 255"),
        ("exit=-1", "exit='-1' is not an integer from 0 to 255"),
        ("run=1s run=2s", "run is given twice"),
        ("reason=", "reason is empty: give a text, or leave it out"),
        ("log='a", '"log=\'a": no closing quotation'),
    ],
)
def test_an_invalid_script_is_reported(text: str, why: str) -> None:
    with pytest.raises(ScriptError) as refused:
        parse_script(text)
    assert str(refused.value) == why


def test_an_annotation_replaces_the_command(cluster: Cluster) -> None:
    script = "run=2s exit=3 reason=Boom message=bye log='one two'"
    _create(cluster, {"sim.kwait.dev/c": script}, restartPolicy="Never")
    cluster.run(2.2)
    assert _status(cluster)["ready"]
    cluster.run(4)
    ended = _status(cluster)["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"], ended["message"]) == (3, "Boom", "bye")
    assert cluster.get("pods", "p")["status"]["phase"] == "Failed"
    kubelet = cluster.api.kubelets["kwait-node-1"]
    assert [line for _, line in kubelet.logs(NAMESPACE, "p", "c")] == [b"one two\n"]


def test_an_annotation_may_only_delay_the_command(cluster: Cluster) -> None:
    _create(cluster, {"sim.kwait.dev/c": "pull=2s start=1s ready=2s"}, "sleep", "99")
    cluster.run(3)
    assert "waiting" in _status(cluster)["state"]
    cluster.run(2)
    assert "running" in _status(cluster)["state"]
    assert not _status(cluster)["ready"]
    cluster.run(2)
    assert _status(cluster)["ready"]
    assert "Pulling" in cluster.reasons("p")


@pytest.mark.parametrize(
    ("script", "waiting"),
    [("start=never", "ContainerCreating"), ("pull-error='manifest unknown'", "ErrImagePull")],
)
def test_an_annotation_may_block_the_start(cluster: Cluster, script: str, waiting: str) -> None:
    _create(cluster, {"sim.kwait.dev/c": script})
    cluster.run(8)
    states = cluster.states("pods", "p", lambda pod: pod["status"].get("containerStatuses"))
    assert waiting in [one[0]["state"]["waiting"]["reason"] for one in states if one]
    assert cluster.get("pods", "p")["status"]["phase"] == "Pending"


def test_a_scripted_container_that_never_becomes_ready(cluster: Cluster) -> None:
    _create(cluster, {"sim.kwait.dev/c": "ready=never"})
    cluster.run(20)
    assert (_status(cluster)["started"], _status(cluster)["ready"]) == (True, False)


def test_invalid_annotations_are_reported_once_and_ignored(cluster: Cluster) -> None:
    _create(cluster, {"sim.kwait.dev/c": "exit=x", "sim.kwait.dev/zz": "exit=1"})
    cluster.run(3)
    assert _status(cluster)["ready"]
    assert _events(cluster) == [
        "InvalidScript x1: Ignored annotation sim.kwait.dev/zz: the pod has no container 'zz', "
        "only c",
        "InvalidScript x1: Ignored annotation sim.kwait.dev/c: exit='x' is not an "
        "integer from 0 to 255",
    ]


def test_rules_override_annotations(cluster: Cluster) -> None:
    script = Script(run=1.0, exit=9)
    rule = ScriptRule(NAMESPACE, parse_labels("app=web"), "", "", script)
    cluster.api.scripts.add(rule)
    cluster.api.scripts.add(ScriptRule("elsewhere", None, "", "", Script(exit=1)))
    annotations = {"sim.kwait.dev/c": "exit=2 reason=Kept"}
    _create(cluster, annotations, restartPolicy="Never", labels={"app": "web"})
    cluster.run(6)
    ended = _status(cluster)["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (9, "Kept")
    cluster.api.scripts.remove(rule)
    assert cluster.api.scripts.script(cluster.get("pods", "p"), "c") == Script()


def test_an_unsimulated_image_runs_with_an_event(cluster: Cluster) -> None:
    cluster.create("pods", "p", pod_spec(container={"image": "nginx:1"}))
    cluster.run(4)
    assert _status(cluster)["ready"]
    told = 'Image "nginx:1" is not simulated: its program is assumed to run until it is terminated'
    assert f"NotSimulated x1: {told}" in cluster.events("p")


# -- KWOK's keys


def test_kwoks_label_fails_a_running_container(cluster: Cluster) -> None:
    annotations = {
        f"{_FAILED}/reason": "Chaos", f"{_FAILED}/exit-code": "7", f"{_FAILED}/message": "bang",
        f"{_FAILED}/delay": "2s",
    }  # fmt: skip
    _create(cluster, annotations, restartPolicy="Never")
    cluster.run(4)
    assert _status(cluster)["ready"]

    def label(pod: Obj) -> None:
        pod["metadata"]["labels"] = {_FAILED: "true"}

    cluster.change("pods", "p", label)
    cluster.run(1)
    assert "running" in _status(cluster)["state"]
    cluster.run(5)
    ended = _status(cluster)["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"], ended["message"]) == (7, "Chaos", "bang")
    assert cluster.get("pods", "p")["status"]["phase"] == "Failed"


def test_kwoks_label_has_kwoks_defaults(cluster: Cluster) -> None:
    _create(cluster, {}, restartPolicy="Never", labels={_FAILED: "true"})
    cluster.run(6)
    ended = _status(cluster)["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (1, "containerFailed")
    assert ended["message"] == "container failed"


def test_kwoks_label_may_select_a_container(cluster: Cluster) -> None:
    annotations = {f"{_FAILED}/container-name": "d"}
    spec = pod_spec("sleep", "99", restartPolicy="Never")
    spec["containers"].append({"name": "d", "image": "busybox", "command": ["sleep", "99"]})
    labels = {_FAILED: "true"}
    cluster.create("pods", "p", spec, annotations=annotations, labels=labels)
    cluster.run(6)
    first, second = cluster.get("pods", "p")["status"]["containerStatuses"]
    assert "running" in first["state"]
    assert second["state"]["terminated"]["exitCode"] == 1


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("exit-code", "many", "'many' is not an integer from 0 to 255"),
        ("delay", "soon", "'soon' is not a duration: use for example 500ms, 3s or 1m30s"),
        ("container-name", "zz", "the pod has no container 'zz', only c"),
    ],
)
def test_invalid_values_of_kwoks_keys_are_reported(
    cluster: Cluster, key: str, value: str, why: str
) -> None:
    _create(cluster, {f"{_FAILED}/{key}": value}, labels={_FAILED: "true"})
    cluster.run(4)
    assert _events(cluster) == [f"InvalidScript x1: Ignored annotation {_FAILED}/{key}: {why}"]


def test_kwoks_delays_apply_to_creation_and_readiness(cluster: Cluster) -> None:
    delay = "stage.kwok.x-k8s.io/delay"
    _create(cluster, {f"pod-create.{delay}": "2s", f"pod-ready.{delay}": "2s"})
    cluster.run(1.5)
    assert "waiting" in _status(cluster)["state"]
    cluster.run(2)
    assert not _status(cluster)["ready"]
    cluster.run(3)
    assert _status(cluster)["ready"]


def test_kwoks_completion_delay_applies_to_pods_of_jobs(cluster: Cluster) -> None:
    template = {"metadata": {"annotations": {"pod-complete.stage.kwok.x-k8s.io/delay": "1s"}}}
    template["spec"] = pod_spec("sleep", "99", restartPolicy="Never")
    cluster.create("jobs.batch", "j", {"template": template})
    cluster.run(12)
    assert cluster.get("jobs.batch", "j")["status"]["succeeded"] == 1
