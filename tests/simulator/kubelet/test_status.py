from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.simulator.kubelet.restart_policy import (
    KeyedBackoff,
    format_go_seconds,
    should_restart,
)
from pytest_kwait.simulator.kubelet.status import compute_conditions, compute_phase
from tests.objects import pod

Obj = dict[str, Any]

_RUNNING = {"state": {"running": {}}, "started": True, "ready": True}
_WAITING: Obj = {"state": {"waiting": {}}}


def _ended(code: int) -> Obj:
    return {"state": {"terminated": {"exitCode": code}}}


def _crashing(code: int) -> Obj:
    return {"state": {"waiting": {}}, "lastState": {"terminated": {"exitCode": code}}}


def _pod_of(policy: str = "Always", names: str = "a", init: str = "", sidecars: str = "") -> Obj:
    inits: list[Obj] = [{"name": name} for name in init]
    inits += [{"name": name, "restartPolicy": "Always"} for name in sidecars]
    containers = [{"name": name} for name in names]
    return pod(generation=2, restartPolicy=policy, containers=containers, initContainers=inits)


@pytest.mark.parametrize(
    ("pod", "statuses", "phase"),
    [
        (_pod_of(), {}, "Pending"),
        (_pod_of(), {"a": _WAITING}, "Pending"),
        (_pod_of(), {"a": _RUNNING}, "Running"),
        (_pod_of(names="ab"), {"a": _RUNNING, "b": _WAITING}, "Pending"),
        (_pod_of(names="ab"), {"a": _RUNNING}, "Pending"),
        (_pod_of(), {"a": _ended(0)}, "Running"),
        (_pod_of(), {"a": _ended(1)}, "Running"),
        (_pod_of(), {"a": _crashing(1)}, "Running"),
        (_pod_of("OnFailure"), {"a": _ended(1)}, "Running"),
        (_pod_of("OnFailure"), {"a": _crashing(1)}, "Running"),
        (_pod_of("OnFailure"), {"a": _ended(0)}, "Succeeded"),
        (_pod_of("Never"), {"a": _ended(0)}, "Succeeded"),
        (_pod_of("Never"), {"a": _ended(1)}, "Failed"),
        (_pod_of("Never", "ab"), {"a": _ended(1), "b": _RUNNING}, "Running"),
        (_pod_of("Never", "ab"), {"a": _ended(1), "b": _ended(0)}, "Failed"),
        (_pod_of("Never", "ab"), {"a": _ended(0), "b": _ended(0)}, "Succeeded"),
        (_pod_of("OnFailure", "ab"), {"a": _ended(0), "b": _ended(1)}, "Running"),
        (_pod_of("Never", init="i"), {"i": _RUNNING, "a": _WAITING}, "Pending"),
        (_pod_of("Never", init="i"), {"i": _ended(0), "a": _WAITING}, "Pending"),
        (_pod_of("Never", init="i"), {"i": _ended(1), "a": _WAITING}, "Failed"),
        (_pod_of("OnFailure", init="i"), {"i": _ended(1), "a": _WAITING}, "Pending"),
        (_pod_of("Always", init="i"), {"i": _crashing(1), "a": _WAITING}, "Pending"),
        (_pod_of("Never", init="i"), {"i": _ended(0), "a": _RUNNING}, "Running"),
        (_pod_of("Never", sidecars="s"), {"s": _RUNNING, "a": _WAITING}, "Pending"),
        (
            _pod_of("Never", sidecars="s"),
            {"s": {**_RUNNING, "started": False}, "a": _WAITING},
            "Pending",
        ),
        (_pod_of("Never", sidecars="s"), {"s": _RUNNING, "a": _RUNNING}, "Running"),
        (_pod_of("Never", sidecars="s"), {"s": _RUNNING, "a": _ended(0)}, "Running"),
        (_pod_of("Never", sidecars="s"), {"s": _ended(137), "a": _ended(0)}, "Succeeded"),
        (_pod_of("Never", sidecars="s"), {"a": _ended(0)}, "Pending"),
    ],
)
def test_the_phase_depends_on_container_states(
    pod: Obj, statuses: dict[str, Obj], phase: str
) -> None:
    assert compute_phase(pod, statuses) == phase


@pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (137, "Failed")])
def test_a_finished_pod_has_a_terminal_phase_under_any_policy(code: int, phase: str) -> None:
    assert compute_phase(_pod_of(), {"a": _ended(code)}, terminal=True) == phase


def test_a_restarting_sidecar_keeps_the_pod_running() -> None:
    pod, statuses = _pod_of(sidecars="s"), {"s": {**_RUNNING, "started": False}, "a": _RUNNING}
    assert compute_phase(pod, statuses) == "Pending"
    assert compute_phase(pod, statuses, initialized=True) == "Running"


@pytest.mark.parametrize(
    ("policy", "code", "again"),
    [
        ("Always", 0, True),
        ("Always", 1, True),
        ("OnFailure", 0, False),
        ("OnFailure", 1, True),
        ("Never", 1, False),
    ],
)
def test_restart_policies(policy: str, code: int, again: bool) -> None:
    pod = _pod_of(policy)
    assert should_restart(pod, pod["spec"]["containers"][0], code) is again


def test_successful_init_containers_never_restart() -> None:
    pod = _pod_of("Always", init="i", sidecars="s")
    init, sidecar = pod["spec"]["initContainers"]
    assert not should_restart(pod, init, 0)
    assert should_restart(pod, init, 1)
    assert should_restart(pod, sidecar, 0)


def _summaries(conditions: list[Obj]) -> list[tuple[str, ...]]:
    return [
        tuple(one[key] for key in ("type", "status", "reason", "message") if key in one)
        for one in conditions
    ]


def _conditions(pod: Obj, statuses: dict[str, Obj], phase: str, **more: bool) -> list[Obj]:
    asked = {"sandbox": True, "started": True, **more}
    return compute_conditions(pod, statuses, phase, stamp="now", **asked)


def test_conditions_of_a_starting_pod() -> None:
    unready = ("False", "ContainersNotReady", "containers with unready status: [a]")
    told = _conditions(_pod_of(), {"a": _WAITING}, "Pending", sandbox=False, started=False)
    assert _summaries(told) == [
        ("PodReadyToStartContainers", "False"),
        ("Initialized", "True"),
        ("Ready", *unready),
        ("ContainersReady", *unready),
        ("PodScheduled", "True"),
    ]
    assert {one["observedGeneration"] for one in told} == {2}
    assert {one["lastTransitionTime"] for one in told} == {"now"}


def test_conditions_name_incomplete_init_containers() -> None:
    pod = _pod_of(init="ij", sidecars="s")
    statuses = {"i": {"ready": True}, "j": {"ready": False}, "s": {"started": False}, "a": {}}
    told = {
        one[0]: one[1:] for one in _summaries(_conditions(pod, statuses, "Pending", started=False))
    }
    assert told["Initialized"] == (
        "False",
        "ContainersNotInitialized",
        "containers with incomplete status: [j s]",
    )
    assert told["ContainersReady"][2] == "containers with unready status: [s a]"
    unknown = {
        one[0]: one[1:] for one in _summaries(_conditions(pod, {}, "Pending", started=False))
    }
    assert unknown["Initialized"][2] == "containers with unknown status: [i j s]"
    assert unknown["Ready"][2] == "containers with unknown status: [s a]"
    begun = {one[0]: one[1:] for one in _summaries(_conditions(pod, statuses, "Running"))}
    assert begun["Initialized"] == ("True",)


@pytest.mark.parametrize(
    ("phase", "initialized", "ready"),
    [
        ("Succeeded", ("True", "PodCompleted"), ("False", "PodCompleted")),
        ("Failed", ("True",), ("False", "PodFailed")),
        ("Running", ("True",), ("True",)),
    ],
)
def test_conditions_follow_the_phase(
    phase: str, initialized: tuple[str, ...], ready: tuple[str, ...]
) -> None:
    told = {one[0]: one[1:] for one in _summaries(_conditions(_pod_of(), {"a": _RUNNING}, phase))}
    assert told["Initialized"] == initialized
    assert told["Ready"] == told["ContainersReady"] == ready


def test_readiness_gates_block_ready() -> None:
    pod = _pod_of()
    pod["spec"]["readinessGates"] = [{"conditionType": "x"}, {"conditionType": "y"}]
    pod["status"]["conditions"] = [{"type": "y", "status": "False"}]
    conditions = _conditions(pod, {"a": _RUNNING}, "Running")
    assert conditions[0] == {"type": "y", "status": "False"}
    told = {one[0]: one[1:] for one in _summaries(conditions)}
    assert told["ContainersReady"] == ("True",)
    assert told["Ready"] == (
        "False",
        "ReadinessGatesNotReady",
        'corresponding condition of pod readiness gate "x" does not exist., '
        'the status of pod readiness gate "y" is not "True", but False',
    )


def test_a_condition_keeps_its_transition_time_until_its_status_changes() -> None:
    pod = _pod_of()
    pod["status"]["conditions"] = [
        {"type": "Ready", "status": "True", "lastTransitionTime": "then"},
        {"type": "Initialized", "status": "False", "lastTransitionTime": "then"},
    ]
    times = {
        one["type"]: one["lastTransitionTime"]
        for one in _conditions(pod, {"a": _RUNNING}, "Running")
    }
    assert (times["Ready"], times["Initialized"]) == ("then", "now")


def test_the_first_retry_is_immediate_then_the_delay_doubles() -> None:
    backoff = KeyedBackoff(scale=0.1)
    assert (backoff.delay("k"), backoff.remaining("k", 100, 100)) == (0, 0)
    for at, delay in (
        (100, 10),
        (110, 20),
        (120, 40),
        (130, 80),
        (140, 160),
        (150, 300),
        (160, 300),
    ):
        backoff.increase("k", at)
        assert backoff.delay("k") == delay
        assert backoff.remaining("k", at, at) == pytest.approx(delay / 10)
        assert backoff.remaining("k", at, at + delay / 10) == 0
    assert backoff.remaining_since_update("k", 170) == pytest.approx(20)
    assert backoff.remaining_since_update("other", 170) == 0


def test_back_off_resets_after_a_quiet_time() -> None:
    backoff = KeyedBackoff(scale=1)
    backoff.increase("k", 0)
    backoff.increase("k", 1)
    assert backoff.remaining("k", 700, 700) == 0
    backoff.increase("k", 700)
    assert backoff.delay("k") == 10
    backoff.forget("k")
    assert backoff.delay("k") == 0


@pytest.mark.parametrize(("seconds", "text"), [(10, "10s"), (80, "1m20s"), (300, "5m0s")])
def test_delays_are_formatted_as_go_durations(seconds: float, text: str) -> None:
    assert format_go_seconds(seconds) == text
