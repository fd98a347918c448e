"""What the subresources of pods write, and which writes are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.objects import clone
from pytest_kwait.simulator.request_info import internal_caller
from tests.simulator.cluster import new_cluster

if TYPE_CHECKING:
    from pytest_kwait.apimachinery.field_errors import FieldError
    from pytest_kwait.simulator.registry.generic_store import GenericStore

Obj = dict[str, Any]

_SENT: Obj = {
    "metadata": {"name": "p", "labels": {"a": "b"}},
    "spec": {
        "containers": [
            {"name": "c", "image": "x:1", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
        ]
    },
}
CLUSTER = new_cluster()
POD: Obj = CLUSTER.create("pods", _SENT, "default")
DEBUG = {
    "name": "d",
    "image": "busybox",
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "imagePullPolicy": "Always",
    "resources": {},
}
LACKING = {field: value for field, value in DEBUG.items() if field not in ("name", "image")}


def storage_of(subresource: str) -> GenericStore:
    return CLUSTER.storage(CLUSTER.kinds["pods"], subresource)


def errors_of(subresource: str, new: Obj, old: Obj) -> list[FieldError]:
    return storage_of(subresource).validate_update(new, old, internal_caller())


def written(subresource: str, **spec: Any) -> tuple[Obj, list[str]]:
    new = clone(POD)
    new["metadata"]["labels"] = {"other": "label"}
    new["status"] = {}
    new["spec"].update(spec)
    storage_of(subresource).prepare_for_update(new, POD)
    return new, [f"{error.field}: {error.message}" for error in errors_of(subresource, new, POD)]


def resized(**parts: Any) -> Obj:
    return {**POD["spec"]["containers"][0], "image": "other", "resources": parts}


def test_a_debug_container_is_all_that_its_subresource_writes() -> None:
    new, errors = written(
        "ephemeralcontainers", ephemeralContainers=[dict(DEBUG)], containers=[], hostNetwork=True
    )
    assert errors == []
    assert new["metadata"] == {**POD["metadata"], "generation": 2}
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
    (error,) = errors_of("ephemeralcontainers", new, before)
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
    assert new["metadata"] == {**POD["metadata"], "generation": 2}


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
    (error,) = errors_of(subresource, clone(old), old)
    assert (error.field, error.message) == ("[]", f"Forbidden: {text}")
