"""Verdicts on a raw pod, of each wait on one pod."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pytest_kwait.engine.condition import Failed, Grace, Met, Pending, Verdict
from pytest_kwait.framework.pod import containers
from pytest_kwait.framework.pod import wait as pod_wait
from pytest_kwait.framework.registry import WAITS, condition_of
from tests.framework.sources import enter
from tests.objects import condition, pod

NONE, SHORT, LONG = Grace.NONE, Grace.SHORT, Grace.LONG
STUCK = ("InvalidImageName", "no such thing")
BAD_IMAGE = "InvalidImageName: no such thing"
READY: dict[str, Any] = {"conditions": [condition("Ready")]}
GOING = {"deletionTimestamp": "now"}
NOWHERE = condition("PodScheduled", "False", reason="Unschedulable", message="0/1 nodes")
UNPLACED: dict[str, Any] = {"nodeName": None, "conditions": [NOWHERE]}
MODULES = (pod_wait, containers)


def ended(name: str, code: int, reason: str = "Error") -> dict[str, Any]:
    return {"name": name, "state": {"terminated": {"exitCode": code, "reason": reason}}}


def up(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "state": {"running": {}}, **more}


def waiting(name: str, reason: str, restarts: int = 0) -> dict[str, Any]:
    return {"name": name, "restartCount": restarts, "state": {"waiting": {"reason": reason}}}


def with_spec(obj: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {**obj, "spec": {**obj["spec"], **spec}}


def two(phase: str = "Running", **status: Any) -> dict[str, Any]:
    names = [{"name": "a"}, {"name": "b"}]
    return with_spec(pod("web", phase, **status), restartPolicy="Never", containers=names)


def evaluate(wait: str, *arguments: Any, of: dict[str, Any] | None) -> Verdict:
    awaited = condition_of(WAITS[f"wait_for_{wait}"].function)("ci-1", "web", *arguments)
    if of is not None:
        enter(awaited, of)
    verdict: Verdict = awaited.verdict()
    return verdict


EVICTED = pod("web", "Failed", reason="Evicted", message="low on\nmemory")
OVER = pod("web", "Succeeded")
GATED = with_spec(
    pod("web", "Pending", nodeName=None), schedulingGates=[{"name": "x/one"}, {"name": "x/two"}]
)
INIT_FAILED = with_spec(
    pod("web", "Pending", initContainerStatuses=[ended("i", 4)]),
    restartPolicy="Never",
    initContainers=[{"name": "i"}],
)
INIT_LOOPS = pod("web", "Pending", initContainerStatuses=[waiting("i", "CrashLoopBackOff", 3)])
LOOPS = pod("web", "Running", containerStatuses=[waiting("a", "CrashLoopBackOff", 3)])
OOM = two(containerStatuses=[ended("a", 137, "OOMKilled"), up("b")])

ROWS: list[tuple[str, tuple[Any, ...], Any, Verdict]] = [
    ("pod_running", (), None, Pending("not found yet")),
    ("pod_running", (), pod("web", "Running"), Met()),
    ("pod_running", (), pod("web", "Running", metadata=GOING), Met()),
    ("pod_running", (), pod("web", "Pending"), Pending("Pending")),
    ("pod_running", (), pod("web", "Unknown"), Pending("Unknown")),
    ("pod_running", (), GATED, Pending("Pending, behind scheduling gate x/one, x/two")),
    ("pod_running", (), OVER, Failed("the pod has succeeded")),
    ("pod_running", (), EVICTED, Failed("the pod has failed: Evicted: low on memory")),
    ("pod_running", (), pod("web", "Failed"), Failed("the pod has failed: no reason is given")),
    (
        "pod_running",
        (),
        pod("web", "Failed", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        Failed("the pod is being deleted, and has failed"),
    ),
    (
        "pod_success",
        (),
        {**EVICTED, "metadata": {"name": "web", "deletionTimestamp": "2026-01-01T00:00:00Z"}},
        Failed("the pod is being deleted, and has failed: Evicted: low on memory"),
    ),
    (
        "pod_running",
        (),
        pod("web", "Failed", containerStatuses=[ended("a", 0), ended("b", 137, "OOMKilled")]),
        Failed("the pod has failed: container b ended with exit code 137 (OOMKilled)"),
    ),
    ("pod_running", (), pod("web", "Pending", waiting=STUCK), Failed(BAD_IMAGE, SHORT)),
    (
        "pod_running",
        (),
        pod("web", "Pending", metadata=GOING),
        Failed("the pod is being deleted", SHORT),
    ),
    (
        "pod_running",
        (),
        pod("web", "Pending", **UNPLACED),
        Failed("Unschedulable: 0/1 nodes", LONG),
    ),
    (
        "pod_running",
        (),
        INIT_FAILED,
        Failed("init container i ended with exit code 4, to stay so", SHORT),
    ),
    (
        "pod_running",
        (),
        with_spec(INIT_FAILED, restartPolicy="Always"),
        Pending("Pending"),
    ),
    (
        "pod_running",
        (),
        INIT_LOOPS,
        Failed("CrashLoopBackOff: init container i was restarted 3 times, ended", LONG),
    ),
    ("pod_running", (), LOOPS, Met()),
    ("pod_ready", (), pod("web", "Running", **READY), Met()),
    ("pod_ready", (), pod("web", "Running"), Pending("Running, not ready")),
    (
        "pod_ready",
        (),
        pod(
            "web",
            "Running",
            conditions=[condition("Ready", "False", reason="X", message="no\nway")],
        ),
        Pending("Running, not ready: X: no way"),
    ),
    ("pod_ready", (), pod("web", "Pending", **READY), Pending("Pending")),
    (
        "pod_ready",
        (),
        LOOPS,
        Failed("CrashLoopBackOff: container a was restarted 3 times, ended", LONG),
    ),
    (
        "pod_ready",
        (),
        OOM,
        Failed("container a ended with exit code 137 (OOMKilled), to stay so", SHORT),
    ),
    ("pod_ready", (), with_spec(OOM, restartPolicy="Always"), Pending("Running, not ready")),
    (
        "pod_ready",
        (),
        with_spec(OOM, containers=[{"name": "a", "restartPolicyRules": [{}]}]),
        Pending("Running, not ready"),
    ),
    (
        "pod_ready",
        (),
        with_spec(OOM, containers=[{"name": "a", "restartPolicy": "OnFailure"}]),
        Pending("Running, not ready"),
    ),
    ("pod_running_ready", (), pod("web", "Running", **READY), Met()),
    ("pod_running_ready", (), OVER, Failed("the pod has succeeded")),
    ("pod_success", (), OVER, Met()),
    ("pod_success", (), EVICTED, Failed("the pod has failed: Evicted: low on memory")),
    ("pod_success", (), pod("web", "Running"), Pending("Running")),
    (
        "pod_success",
        (),
        with_spec(pod("web", "Running"), restartPolicy="Always"),
        Failed("its restart policy is Always: its containers are started again, always"),
    ),
    (
        "pod_success",
        (),
        with_spec(pod("web", "Running", metadata=GOING), restartPolicy="Always"),
        Pending("Running"),
    ),
    ("pod_success", (), pod("web", "Pending", waiting=STUCK), Failed(BAD_IMAGE, SHORT)),
    ("pod_no_longer_running", (), OVER, Met()),
    ("pod_no_longer_running", (), EVICTED, Met()),
    ("pod_no_longer_running", (), pod("web", "Running"), Pending("Running")),
    ("pod_no_longer_running", (), pod("web", "Pending", waiting=STUCK), Failed(BAD_IMAGE, SHORT)),
    (
        "pod_no_longer_running",
        (),
        with_spec(pod("web", "Pending", waiting=STUCK), activeDeadlineSeconds=5),
        Pending("Pending (InvalidImageName)"),
    ),
    ("pod_terminated", ("Evicted",), EVICTED, Met()),
    ("pod_terminated", ("",), pod("web", "Failed"), Met()),
    (
        "pod_terminated",
        ("OOM",),
        EVICTED,
        Failed("the pod has failed: Evicted: low on memory"),
    ),
    ("pod_terminated", ("OOM",), OVER, Failed("the pod has succeeded")),
    ("pod_terminated", ("OOM",), pod("web", "Running"), Pending("Running")),
    ("pod_failed_reason", ("Evicted",), EVICTED, Met()),
    ("pod_failed_reason", ("X",), OVER, Failed("the pod has succeeded")),
    ("pod_not_pending", (), pod("web", "Running"), Met()),
    ("pod_not_pending", (), pod("web", "Unknown"), Met()),
    ("pod_not_pending", (), {"metadata": {"name": "web"}}, Pending("Pending")),
    ("pod_not_pending", (), pod("web", "Pending", waiting=STUCK), Failed(BAD_IMAGE, SHORT)),
    ("pod_scheduled", (), pod("web", "Pending"), Met()),
    ("pod_scheduled", (), GATED, Pending("Pending, behind scheduling gate x/one, x/two")),
    (
        "pod_scheduled",
        (),
        pod("web", "Pending", **UNPLACED),
        Failed("Unschedulable: 0/1 nodes", LONG),
    ),
    (
        "pod_scheduled",
        (),
        pod("web", "Failed", nodeName=None),
        Failed("the pod has failed: no reason is given"),
    ),
    ("pod_unschedulable", (), pod("web", "Pending", **UNPLACED), Met()),
    ("pod_unschedulable", (), pod("web", "Pending", nodeName=None), Pending("Pending")),
    ("pod_unschedulable", (), pod("web", "Running"), Failed("the pod was scheduled to node-1")),
    (
        "pod_unschedulable",
        (),
        pod("web", "Failed", nodeName=None),
        Failed("the pod has failed: no reason is given"),
    ),
    ("pod_terminating", (), pod("web", "Running", metadata=GOING), Met()),
    ("pod_terminating", (), pod("web", "Running"), Pending("it is not being deleted")),
    ("pod_not_found", (), None, Met()),
    ("pod_not_found", (), pod("web", "Running"), Pending("still there, not being deleted")),
    ("pod_not_found", ("another",), pod("web", "Running"), Met()),
    (
        "pod_not_found",
        ("uid-web",),
        pod("web", "Running", metadata={**GOING, "finalizers": ["x/y"]}),
        Pending("being deleted, held by x/y"),
    ),
    ("pod_observed_generation", (2,), pod("web", "Running", observedGeneration=2), Met()),
    (
        "pod_observed_generation",
        (2,),
        pod("web", "Running"),
        Pending("generation 0 is observed, not yet 2"),
    ),
    (
        "pod_observed_generation",
        (2,),
        pod("web", "Running", observedGeneration=3),
        Failed("generation 3 is observed already"),
    ),
    (
        "pod_observed_generation",
        (2, "Ready"),
        pod("web", "Running"),
        Pending("no condition Ready yet"),
    ),
    (
        "pod_observed_generation",
        (2, "Ready"),
        pod("web", "Running", conditions=[condition("Ready", observedGeneration=2)]),
        Met(),
    ),
    ("container_started", ("a",), two(containerStatuses=[up("a", started=True)]), Met()),
    (
        "container_started",
        ("a",),
        two(containerStatuses=[up("a", started=None)]),
        Pending("container a is not started, running"),
    ),
    ("container_started", ("a",), two(containerStatuses=None), Pending("Running")),
    (
        "container_started",
        ("z",),
        two(),
        Failed("the pod has no container z, it has a, b", LONG),
    ),
    ("container_running", ("b",), OOM, Met()),
    (
        "container_running",
        ("a",),
        OOM,
        Failed("container a ended with exit code 137 (OOMKilled), to stay so"),
    ),
    ("container_running", ("a",), OVER, Failed("the pod has succeeded")),
    (
        "container_running",
        ("b",),
        two(phase="Pending", containerStatuses=[waiting("b", "ContainerCreating")]),
        Pending("container b is not running, waiting: ContainerCreating"),
    ),
    (
        "container_running",
        ("b",),
        two(
            phase="Pending",
            containerStatuses=[waiting("a", "InvalidImageName"), waiting("b", "X")],
        ),
        Pending("container b is not running, waiting: X"),
    ),
    (
        "container_running",
        ("a",),
        two(phase="Pending", containerStatuses=[waiting("a", "InvalidImageName")]),
        Failed("InvalidImageName", SHORT),
    ),
    ("container_terminated", ("a",), OOM, Met()),
    ("container_terminated", ("b",), OOM, Pending("container b is not terminated, running")),
    ("container_to_fail", ("a", "X"), two(containerStatuses=[waiting("a", "X")]), Met()),
    (
        "container_to_fail",
        ("a", "X"),
        two(containerStatuses=[waiting("a", "Y")]),
        Pending("container a, waiting: Y"),
    ),
    ("container_to_fail", ("a", "X"), OVER, Failed("the pod has succeeded")),
]


@pytest.mark.parametrize(("wait", "arguments", "obj", "verdict"), ROWS)
def test_rows(wait: str, arguments: tuple[Any, ...], obj: Any, verdict: Verdict) -> None:
    assert evaluate(wait, *arguments, of=obj) == verdict


@pytest.mark.parametrize("module", MODULES)
def test_gaps_are_no_crash(module: Any) -> None:
    arguments = {
        "pod_condition": ("x", lambda each: False),
        "pod_terminated": ("r",),
        "pod_failed_reason": ("r",),
        "pod_observed_generation": (1,),
        "container_started": ("a",),
        "container_running": ("a",),
        "container_terminated": ("a",),
        "container_to_fail": ("a", "r"),
    }
    broken: list[dict[str, Any]] = [
        {"metadata": {"name": "web"}},
        {"metadata": {"name": "web"}, "spec": None, "status": None},
        {
            "metadata": {"name": "web"},
            "status": {"conditions": None, "containerStatuses": [{"state": None}]},
        },
    ]
    for wait in vars(module):
        name = wait.removeprefix("wait_for_")
        if name != wait:
            for obj in broken:
                verdict = evaluate(name, *arguments.get(name, ()), of=obj)
                assert isinstance(verdict, Met | Pending | Failed)


def test_deleted_and_created_anew() -> None:
    awaited = condition_of(pod_wait.wait_for_pod_ready)("ci-1", "web")
    book = awaited.sources()[0].sink
    first = pod("web", "Running", metadata={"uid": "1"})
    book.put(first, msgspec.json.encode(first), 0.0)
    book.drop("1")

    assert awaited.verdict() == Failed("the pod was deleted")
