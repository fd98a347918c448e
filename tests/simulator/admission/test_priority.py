from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.api_errors import StatusError
from tests.objects import pod

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster

_CLASSES = "priorityclasses.scheduling.k8s.io"


def priority_class(api: SimulatedCluster, name: str, value: int, **more: Any) -> None:
    api.create(_CLASSES, {"metadata": {"name": name}, "value": value, **more})


def refused(api: SimulatedCluster, **spec: Any) -> str:
    with pytest.raises(StatusError) as error:
        api.create("pods", pod(**spec), "default")
    assert error.value.code == 403
    return error.value.message


@pytest.mark.parametrize(
    ("name", "value"),
    [("system-node-critical", 2000001000), ("system-cluster-critical", 2000000000)],
)
def test_system_priority_classes_exist(api: SimulatedCluster, name: str, value: int) -> None:
    made = api.create("pods", pod(priorityClassName=name), "default")
    assert made["spec"]["priority"] == value


def test_pod_without_a_class_has_priority_zero(api: SimulatedCluster) -> None:
    spec = api.create("pods", pod(), "default")["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert "priorityClassName" not in spec


def test_default_class_sets_the_priority(api: SimulatedCluster) -> None:
    priority_class(api, "usual", 7, globalDefault=True, preemptionPolicy="Never")
    spec = api.create("pods", pod(), "default")["spec"]
    assert spec["priorityClassName"] == "usual"
    assert (spec["priority"], spec["preemptionPolicy"]) == (7, "Never")
    with pytest.raises(StatusError) as error:
        priority_class(api, "other", 8, globalDefault=True)
    assert error.value.message == (
        'priorityclasses.scheduling.k8s.io "other" is forbidden: PriorityClass usual is already '
        "marked as default. Only one default can exist"
    )


def test_missing_class_is_denied(api: SimulatedCluster) -> None:
    assert refused(api, priorityClassName="no") == (
        'pods "p" is forbidden: no PriorityClass with name no was found'
    )


def test_priority_that_contradicts_the_class_is_denied(api: SimulatedCluster) -> None:
    assert refused(api, priority=5) == (
        'pods "p" is forbidden: the integer value of priority (5) must not be provided in pod '
        "spec; priority admission controller computed 0 from the given PriorityClass name"
    )
    assert refused(api, preemptionPolicy="Never") == (
        'pods "p" is forbidden: the string value of PreemptionPolicy (Never) must not be provided '
        "in pod spec; priority admission controller computed PreemptLowerPriority from the given "
        "PriorityClass name"
    )
