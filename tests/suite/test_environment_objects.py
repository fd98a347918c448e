"""Objects of environments that stay, in a cluster that is a dictionary."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import Deadline
from pytest_kwait.errors import ApiError
from pytest_kwait.suite.environment_objects import (
    describe_changed_object,
    digest_objects,
    digest_programs,
    name_object,
    recorded_objects,
)
from pytest_kwait.suite.observers import ADOPT_LISTENERS, APPLY_LISTENERS
from tests.suite.fakes import FakeClient, FakeTransport


class World:
    """A cluster with a deployment that is ready and three config maps."""

    def __init__(self) -> None:
        self.transport = FakeTransport()
        client: Any = FakeClient(self.transport)
        self.session = ApiSession.of(client)
        status = {"replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}
        self.deployment = self._add(
            "apps/v1", "Deployment", "web", spec={"replicas": 1}, status=status
        )
        self.maps = [self._add("v1", "ConfigMap", name) for name in ("a", "b", "c")]
        self.names = [name_object(obj) for obj in (self.deployment, *self.maps)]

    def _add(self, api_version: str, kind: str, name: str, **fields: Any) -> dict[str, Any]:
        root = "/api/v1" if api_version == "v1" else f"/apis/{api_version}"
        fieldset: dict[str, Any] = {"f:data": {}}
        own = {"manager": "pytest-kwait", "operation": "Apply", "fieldsV1": fieldset, "time": "1"}
        metadata = {"name": name, "namespace": "t", "uid": f"u-{name}", "managedFields": [own]}
        obj = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}
        self.transport.objects[f"{root}/namespaces/t/{kind.lower()}s/{name}"] = obj
        return obj

    def record(self) -> dict[str, str]:
        return digest_objects(self.session, self.names, Deadline.after(5.0))

    def change(self, recorded: dict[str, str]) -> str:
        return describe_changed_object(self.session, recorded, Deadline.after(5.0))


@pytest.fixture
def world() -> World:
    return World()


def test_objects_that_are_as_they_were_take_one_request_for_each_kind(world: World) -> None:
    recorded = world.record()
    assert list(recorded) == world.names
    world.transport.requests.clear()
    assert world.change(recorded) == ""
    assert [line for line in world.transport.requests if "/namespaces/" in line] == [
        "GET /apis/apps/v1/namespaces/t/deployments",
        "GET /api/v1/namespaces/t/configmaps",
    ]


def _entry(manager: str, **fields: Any) -> dict[str, Any]:
    return {"manager": manager, "operation": "Update", "time": "2", "fieldsV1": {}, **fields}


@pytest.mark.parametrize(
    ("entry", "change"),
    [
        (_entry("kubectl-edit"), "configmap/b was changed by kubectl-edit"),
        (_entry("pytest-kwait"), "configmap/b was changed by pytest-kwait"),
        (_entry("kube-controller-manager"), ""),
        (_entry("operator", subresource="status"), ""),
    ],
)
def test_a_change_by_a_tool_is_told_from_one_by_a_controller(
    world: World, entry: dict[str, Any], change: str
) -> None:
    recorded = world.record()
    world.maps[1]["metadata"]["managedFields"].append(entry)
    assert world.change(recorded) == change


def test_a_field_that_another_client_has_taken_over_is_a_change(world: World) -> None:
    recorded = world.record()
    own, taken = world.maps[0]["metadata"]["managedFields"], _entry("operator")
    own[0]["fieldsV1"] = {}
    own.append(taken)
    assert world.change(recorded) == "configmap/a was changed by operator"


@pytest.mark.parametrize(
    ("field", "change"),
    [("data", "configmap/c was changed"), ("status", ""), ("annotations", "")],
)
def test_an_object_without_managed_fields_is_compared_as_it_is(
    world: World, field: str, change: str
) -> None:
    obj = world.maps[2]
    del obj["metadata"]["managedFields"]
    recorded = world.record()
    (obj["metadata"] if field == "annotations" else obj)[field] = {"a": "b"}
    assert world.change(recorded) == change


def test_objects_that_are_gone_replaced_or_not_ready_any_more_are_named(world: World) -> None:
    recorded = world.record()
    world.deployment["status"]["availableReplicas"] = 0
    assert world.change(recorded) == "deployment/web is not ready"
    world.deployment["metadata"]["uid"] = "u2"
    assert world.change(recorded) == "deployment/web was changed by pytest-kwait"
    world.deployment["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert world.change(recorded) == "deployment/web is being deleted"
    del world.transport.objects["/apis/apps/v1/namespaces/t/deployments/web"]
    assert world.change(recorded) == "deployment/web is gone"
    # What the function has deleted again is no part of the environment.
    assert world.names[0] not in world.record()


def test_what_was_never_ready_need_not_be(world: World) -> None:
    world.deployment["status"]["availableReplicas"] = 0
    assert world.change(world.record()) == ""


def test_a_kind_whose_definition_is_gone_has_no_objects(world: World) -> None:
    assert world.change({"shop/v1 Order t a": "1"}) == "order/a is gone"


def test_a_kind_that_may_not_be_listed_is_not_looked_at(world: World) -> None:
    denied = ApiError("no", status=403, reason="Forbidden")
    world.transport.refuse("GET", "/apis/apps/v1/namespaces/t/deployments", denied)
    assert list(world.record()) == world.names[1:]


def test_programs_are_the_containers_of_pods_that_are_ready(world: World) -> None:
    def add(name: str, ready: str) -> dict[str, Any]:
        status: dict[str, Any] = {"conditions": [{"type": "Ready", "status": ready}]}
        status["containerStatuses"] = [{"containerID": f"c-{name}"}]
        pod = {"metadata": {"name": name}, "status": status}
        world.transport.objects[f"/api/v1/namespaces/t/pods/{name}"] = pod
        return status

    status, _ = add("web", "True"), add("late", "False")
    names = [*world.names, "v1 Namespace - t"]
    programs = digest_programs(world.session, names, Deadline.after(5.0))
    assert list(programs) == ["pod/web"]
    status["containerStatuses"][0]["containerID"] = "another"
    assert digest_programs(world.session, names, Deadline.after(5.0)) != programs


def test_applied_and_adopted_objects_are_recorded(world: World) -> None:
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
    with recorded_objects() as names:
        for listener in APPLY_LISTENERS:
            listener(None, [world.maps[0], {**review, "metadata": {}}])
        for adopter in ADOPT_LISTENERS:
            adopter(world.deployment)
    assert names == {"v1 ConfigMap t a", "apps/v1 Deployment t web"}
    assert not ADOPT_LISTENERS
