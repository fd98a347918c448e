from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.simulator.objects import clone
from pytest_kwait.simulator.registry.pod_parts import restore_other_fields, validate_pod_subresource
from tests.simulator.cluster import new_cluster

Obj = dict[str, Any]

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
def test_debug_containers_stay_as_they_are(now: list[Obj], what: str) -> None:
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
def test_containers_stay_those_that_they_were(spec: Obj, texts: list[str]) -> None:
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
def test_pods_whose_parts_nobody_writes(subresource: str, change: Obj, text: str) -> None:
    old = clone(POD)
    for part, fields in change.items():
        old[part].update(fields)
    (error,) = validate_pod_subresource(subresource, clone(old), old)
    assert (error.field, error.message) == ("[]", f"Forbidden: {text}")
