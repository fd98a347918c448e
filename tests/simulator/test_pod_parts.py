from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.simulator.objects import clone
from pytest_kwait.simulator.pod_parts import keep_the_rest, part_errors

Obj = dict[str, Any]

POD: Obj = {
    "metadata": {"name": "p", "labels": {"a": "b"}},
    "spec": {
        "containers": [
            {"name": "c", "image": "x:1", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
        ]
    },
    "status": {"phase": "Running"},
}
DEBUG = {"name": "d", "image": "busybox"}


def written(subresource: str, **spec: Any) -> tuple[Obj, list[str]]:
    new = clone(POD)
    new["metadata"]["labels"] = {"other": "label"}
    new["status"] = {}
    new["spec"].update(spec)
    keep_the_rest(subresource, new, POD)
    return new, [f"{error.field}: {error.message}" for error in part_errors(subresource, new, POD)]


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
    assert debug == [
        {
            **DEBUG,
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
        }
    ]


@pytest.mark.parametrize(
    ("debug", "texts"),
    [
        ({"name": "c", "image": "x"}, ['[0].name: Duplicate value: "c"']),
        ({"image": "x"}, ["[0].name: Required value"]),
        ({"name": "d"}, ["[0].image: Required value"]),
        (
            {**DEBUG, "targetContainerName": "z"},
            ['[0].targetContainerName: Not found: "z"'],
        ),
        (
            {**DEBUG, "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "1"}}},
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
    (error,) = part_errors("ephemeralcontainers", new, before)
    assert error.field == "spec.ephemeralContainers"
    assert error.message.startswith(
        f'Forbidden: existing ephemeral containers "d" may not be {what}'
    )


def test_resources_are_all_that_a_resize_writes() -> None:
    resources = {"requests": {"cpu": "2", "memory": "1Gi"}}
    new, errors = written("resize", containers=[resized(**resources)], hostNetwork=True)
    assert errors == []
    assert new["spec"] == {"containers": [{**POD["spec"]["containers"][0], "resources": resources}]}
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
    assert errors == [text]
