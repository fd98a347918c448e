from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.api_errors import StatusError
from tests.objects import pod
from tests.simulator.cluster import new_cluster

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster

ANY = {"key": "x", "operator": "Exists"}
OTHER = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
NONE = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"


@pytest.fixture
def api() -> SimulatedCluster:
    api = new_cluster()
    full = {
        "metadata": {"name": "full"},
        "handler": "h",
        "overhead": {"podFixed": {"cpu": "10m"}},
        "scheduling": {"nodeSelector": {"a": "b"}, "tolerations": [ANY]},
    }
    api.create("runtimeclasses.node.k8s.io", full)
    api.create("runtimeclasses.node.k8s.io", {"metadata": {"name": "bare"}, "handler": "h"})
    return api


def refused(api: SimulatedCluster, **spec: Any) -> tuple[int, str]:
    with pytest.raises(StatusError) as error:
        api.create("pods", pod(**spec), "default")
    return error.value.code, error.value.message.partition(" is forbidden: ")[2]


def test_runtime_class_sets_overhead_and_scheduling(api: SimulatedCluster) -> None:
    spec = api.create("pods", pod(runtimeClassName="full"), "default")["spec"]
    assert spec["overhead"] == {"cpu": "10m"}
    assert spec["nodeSelector"] == {"a": "b"}
    assert spec["tolerations"][-1] == ANY


def test_runtime_class_keeps_fields_of_the_pod(api: SimulatedCluster) -> None:
    exact = {"key": "x", "operator": "Equal", "value": "v"}
    wanted: Any = {"nodeSelector": {"c": "d"}, "overhead": {"cpu": "0.01"}, "tolerations": [exact]}
    spec = api.create("pods", pod(runtimeClassName="full", **wanted), "default")["spec"]
    assert spec["nodeSelector"] == {"a": "b", "c": "d"}
    assert exact not in spec["tolerations"]
    assert ANY in spec["tolerations"]


def test_empty_runtime_class_changes_nothing(api: SimulatedCluster) -> None:
    spec = api.create("pods", pod(runtimeClassName="bare"), "default")["spec"]
    assert not {"overhead", "nodeSelector"} & spec.keys()


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"runtimeClassName": "gone"}, 'pod rejected: RuntimeClass "gone" not found'),
        ({"runtimeClassName": "full", "overhead": {"cpu": "1"}}, OTHER),
        ({"runtimeClassName": "full", "overhead": {"memory": "1"}}, OTHER),
        ({"runtimeClassName": "bare", "overhead": {"cpu": "1"}}, NONE),
        ({"overhead": {"cpu": "1"}}, NONE),
        ({"overhead": {}}, NONE),
        (
            {"runtimeClassName": "full", "nodeSelector": {"a": "c"}},
            "conflict: runtimeClass.scheduling.nodeSelector[a] = b; pod.spec.nodeSelector[a] = c",
        ),
    ],
)
def test_contradictory_pods_are_denied(
    api: SimulatedCluster, spec: dict[str, Any], why: str
) -> None:
    assert refused(api, **spec) == (403, why)


def test_empty_class_name_means_no_class(api: SimulatedCluster) -> None:
    with pytest.raises(StatusError) as error:
        api.create("pods", pod(runtimeClassName=""), "default")
    assert (error.value.code, error.value.message) == (500, "resource name may not be empty")


def test_pod_templates_are_not_checked(api: SimulatedCluster) -> None:
    template = {"metadata": {"name": "a"}, "template": pod(runtimeClassName="gone")}
    assert api.create("podtemplates", template, "default")
