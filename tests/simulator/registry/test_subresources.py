from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.objects import clone
from pytest_kwait.simulator.registry.subresources import (
    can_ignore_budgets,
    decrement_budget,
    find_disruption_budget,
    restore_other_fields,
    validate_pod_subresource,
)
from tests.objects import condition, pod
from tests.simulator.cluster import new_cluster

Obj = dict[str, Any]


def running_pod(*, ready: bool = True, **status: Any) -> Obj:
    phase = status.pop("phase", "Running")
    conditions = [condition("Ready", "True" if ready else "False")]
    return pod("p", phase, conditions=conditions, status=status)


def budget(policy: str | None = None, **status: Any) -> Obj:
    found = {"observedGeneration": 1, "disruptionsAllowed": 0, **status}
    spec = {"unhealthyPodEvictionPolicy": policy} if policy else {}
    return {"metadata": {"name": "b", "generation": 1}, "spec": spec, "status": found}


def failed_sync(reason: str) -> list[Obj]:
    return [
        {"type": "DisruptionAllowed", "status": "False", "reason": reason, "message": "no owner"}
    ]


@pytest.mark.parametrize(
    ("status", "deleted", "unguarded"),
    [
        ({"phase": "Pending"}, False, True),
        ({"phase": "Succeeded"}, False, True),
        ({"phase": "Failed"}, False, True),
        ({"phase": "Running"}, False, False),
        ({"phase": "Running"}, True, True),
        ({}, False, False),
    ],
)
def test_pods_that_no_budget_counts(status: Obj, deleted: bool, unguarded: bool) -> None:
    metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {}
    assert can_ignore_budgets({"metadata": metadata, "status": status}) is unguarded


@pytest.mark.parametrize(
    ("subject", "guard", "spends"),
    [
        (running_pod(), budget(disruptionsAllowed=1), True),
        (running_pod(ready=False), budget(disruptionsAllowed=1), True),
        (running_pod(ready=False), budget(currentHealthy=1, desiredHealthy=1), False),
        (running_pod(ready=False), budget("AlwaysAllow"), False),
        (running_pod(ready=False), budget("AlwaysAllow", observedGeneration=0), False),
    ],
)
def test_eviction_allowed_by_a_budget(subject: Obj, guard: Obj, spends: bool) -> None:
    assert find_disruption_budget(subject, [guard]) is (guard if spends else None)


def test_eviction_without_a_budget() -> None:
    assert find_disruption_budget(running_pod(), []) is None


@pytest.mark.parametrize(
    ("guard", "text"),
    [
        (
            budget(currentHealthy=1, desiredHealthy=2),
            "The disruption budget b needs 2 healthy pods and has 1 currently",
        ),
        (
            budget(conditions=failed_sync("SyncFailed")),
            "The disruption budget b does not allow evicting pods currently because it failed "
            "sync: no owner",
        ),
        (
            budget(currentHealthy=3, conditions=failed_sync("Odd")),
            "The disruption budget b does not allow evicting pods currently (Odd): no owner",
        ),
        (
            budget(currentHealthy=3),
            "The disruption budget b does not allow evicting pods currently",
        ),
    ],
)
def test_why_a_budget_keeps_a_pod(guard: Obj, text: str) -> None:
    with pytest.raises(StatusError) as error:
        find_disruption_budget(running_pod(), [guard])
    assert (error.value.code, error.value.reason) == (429, "TooManyRequests")
    assert error.value.details == {"causes": [{"reason": "DisruptionBudget", "message": text}]}
    assert "Retry-After" not in error.value.headers


def test_eviction_with_an_unobserved_budget_is_retried_later() -> None:
    with pytest.raises(StatusError) as error:
        find_disruption_budget(running_pod(), [budget(observedGeneration=0)])
    assert error.value.headers["Retry-After"] == "10"
    assert error.value.details is not None
    assert error.value.details["retryAfterSeconds"] == 10
    assert error.value.details["causes"][0]["message"] == (
        "The disruption budget b is still being processed by the server."
    )


@pytest.mark.parametrize(
    ("guards", "code", "text"),
    [
        (
            [budget(), budget()],
            500,
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does "
            "not support.",
        ),
        (
            [budget(disruptionsAllowed=-1)],
            403,
            'poddisruptionbudget.policy "b" is forbidden: pdb disruptions allowed is negative',
        ),
        (
            [budget(disruptedPods=dict.fromkeys(map(str, range(2001)), "t"))],
            403,
            'poddisruptionbudget.policy "b" is forbidden: DisruptedPods map too big - too many '
            "evictions not confirmed by PDB controller",
        ),
    ],
)
def test_eviction_with_unusable_budgets(guards: list[Obj], code: int, text: str) -> None:
    with pytest.raises(StatusError) as error:
        find_disruption_budget(running_pod(), guards)
    assert (error.value.code, str(error.value)) == (code, text)


def test_a_disruption_is_noted() -> None:
    status = decrement_budget(budget(disruptionsAllowed=2), "p", "t")
    assert (status["disruptionsAllowed"], status["disruptedPods"]) == (1, {"p": "t"})
    assert "conditions" not in status
    status = decrement_budget({"status": status}, "q", "u")
    assert status["disruptedPods"] == {"p": "t", "q": "u"}
    assert [one["reason"] for one in status["conditions"]] == ["InsufficientPods"]


_SENT: Obj = {
    "metadata": {"name": "p", "labels": {"a": "b"}},
    "spec": {
        "containers": [
            {"name": "c", "image": "x:1", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
        ]
    },
}
POD: Obj = new_cluster().create("pods", _SENT, "default")
DEBUG = {
    "name": "d",
    "image": "busybox",
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "imagePullPolicy": "Always",
    "resources": {},
}
LACKING = {field: value for field, value in DEBUG.items() if field not in ("name", "image")}


def written(subresource: str, **spec: Any) -> tuple[Obj, list[str]]:
    new = clone(POD)
    new["metadata"]["labels"] = {"other": "label"}
    new["status"] = {}
    new["spec"].update(spec)
    restore_other_fields(subresource, new, POD)
    return new, [
        f"{error.field}: {error.message}"
        for error in validate_pod_subresource(subresource, new, POD)
    ]


def resized(**parts: Any) -> Obj:
    return {**POD["spec"]["containers"][0], "image": "other", "resources": parts}


def test_a_debug_container_is_all_that_its_subresource_writes() -> None:
    new, errors = written(
        "ephemeralcontainers", ephemeralContainers=[dict(DEBUG)], containers=[], hostNetwork=True
    )
    assert errors == []
    assert new["metadata"] == POD["metadata"]
    assert new["status"] == POD["status"]
    debug = new["spec"].pop("ephemeralContainers")
    assert new["spec"] == POD["spec"]
    assert debug == [DEBUG]


@pytest.mark.parametrize(
    ("debug", "texts"),
    [
        ({**DEBUG, "name": "c"}, ['[0].name: Duplicate value: "c"']),
        ({**LACKING, "image": "x"}, ["[0].name: Required value"]),
        ({**LACKING, "name": "d"}, ["[0].image: Required value"]),
        (
            {**DEBUG, "targetContainerName": "z"},
            ['[0].targetContainerName: Not found: "z"'],
        ),
        (
            {
                **DEBUG,
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "resources": {"limits": {"cpu": "1"}},
            },
            [
                "[0].ports: Forbidden: cannot be set for an Ephemeral Container",
                "[0].resources: Forbidden: cannot be set for an Ephemeral Container",
            ],
        ),
        ({**DEBUG, "resources": {}, "targetContainerName": "c"}, []),
    ],
)
def test_debug_containers_that_cannot_be(debug: Obj, texts: list[str]) -> None:
    _, errors = written("ephemeralcontainers", ephemeralContainers=[debug])
    assert errors == [f"spec.ephemeralContainers{text}" for text in texts]


@pytest.mark.parametrize(("now", "what"), [([], "removed"), ([{**DEBUG, "image": "y"}], "changed")])
def test_ephemeral_containers_are_immutable(now: list[Obj], what: str) -> None:
    before, new = clone(POD), clone(POD)
    before["spec"]["ephemeralContainers"] = [DEBUG]
    new["spec"]["ephemeralContainers"] = now
    (error,) = validate_pod_subresource("ephemeralcontainers", new, before)
    assert error.field == "spec.ephemeralContainers"
    assert error.message.startswith(
        f'Forbidden: existing ephemeral containers "d" may not be {what}'
    )


def test_resources_are_all_that_a_resize_writes() -> None:
    resources = {"requests": {"cpu": "2", "memory": "1Gi"}}
    new, errors = written("resize", containers=[resized(**resources)], hostNetwork=True)
    assert errors == []
    (container,) = new["spec"]["containers"]
    assert container == {**POD["spec"]["containers"][0], "resources": resources}
    assert not new["spec"].get("hostNetwork")
    assert new["metadata"] == POD["metadata"]


@pytest.mark.parametrize(
    ("resources", "text"),
    [
        (
            {"requests": {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi"}},
            "spec: Forbidden: only cpu and memory resources are mutable",
        ),
        (
            {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}},
            'spec: Invalid value: "Burstable": Pod QOS Class may not change as a result of '
            "resizing",
        ),
        ({}, 'spec: Invalid value: "Burstable": Pod QOS Class may not change as a result of '
         "resizing"),
    ],
)  # fmt: skip
def test_resizes_that_cannot_be(resources: Obj, text: str) -> None:
    _, errors = written("resize", containers=[resized(**resources)])
    assert errors[:1] == [text]


@pytest.mark.parametrize(
    ("spec", "texts"),
    [
        (
            {"containers": [resized(requests={"memory": "1Gi"})]},
            [
                "spec.containers[0].resources.requests: Forbidden: resource requests cannot be "
                "removed"
            ],
        ),
        (
            {"containers": [POD["spec"]["containers"][0]] * 2},
            ["spec.containers: Forbidden: containers may not be added or removed on resize"],
        ),
        (
            {"containers": [{**POD["spec"]["containers"][0], "name": "z"}]},
            [
                "spec.containers[0].name: Forbidden: containers may not be renamed or reordered on "
                "resize"
            ],
        ),
    ],
)
def test_resize_keeps_the_containers(spec: Obj, texts: list[str]) -> None:
    _, errors = written("resize", **spec)
    assert errors[-len(texts) :] == texts


@pytest.mark.parametrize(
    ("subresource", "change", "text"),
    [
        (
            "resize",
            {"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}},
            "static pods cannot be resized",
        ),
        (
            "ephemeralcontainers",
            {"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}},
            "static pods do not support ephemeral containers",
        ),
        ("resize", {"spec": {"os": {"name": "windows"}}}, "windows pods cannot be resized"),
    ],
)
def test_subresource_writes_of_unsupported_pods(subresource: str, change: Obj, text: str) -> None:
    old = clone(POD)
    for part, fields in change.items():
        old[part].update(fields)
    (error,) = validate_pod_subresource(subresource, clone(old), old)
    assert (error.field, error.message) == ("[]", f"Forbidden: {text}")
