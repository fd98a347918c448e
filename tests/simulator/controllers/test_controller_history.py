from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.controllers.controller_history import (
    REVISIONS,
    ControllerHistory,
    compute_revision_hash,
    find_equal_revisions,
    make_revision_name,
    make_template_patch,
    new_revision,
)
from pytest_kwait.simulator.controllers.controller_refs import ControllerRefManager
from pytest_kwait.simulator.controllers.pod_control import compute_template_hash
from tests.simulator.cluster import NAMESPACE, Cluster, set_spec

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

_KIND = ("apps/v1", "StatefulSet")
_LABEL = "controller.kubernetes.io/hash"
_OTHER_DATA = {"spec": {"template": {"spec": {}, "$patch": "replace"}}}


def _default_template(cluster: Cluster, resource: str, spec: Obj) -> Obj:
    """Return the template as the API server stores it."""
    cluster.create(resource, "model", spec)
    stored: Obj = cluster.get(resource, "model")["spec"]["template"]
    cluster.run(20)
    cluster.delete(resource, "model")
    cluster.run(20)
    assert not cluster.every(REVISIONS)
    return stored


def _add(cluster: Cluster, name: str, data: Obj, number: int = 1) -> None:
    revision = {"metadata": {"name": name}, "data": data, "revision": number}
    cluster.api.create(REVISIONS, revision, NAMESPACE)


def _names(cluster: Cluster) -> list[str]:
    return sorted(revision["metadata"]["name"] for revision in cluster.every(REVISIONS))


def test_stateful_set_counts_collisions_and_keeps_the_hash_of_the_first_name(
    cluster: Cluster,
) -> None:
    spec = set_spec(replicas=0, serviceName="s")
    data = make_template_patch(_default_template(cluster, "statefulsets.apps", spec))
    digests = [compute_revision_hash(data, collisions) for collisions in range(2)]
    _add(cluster, f"s-{digests[0]}", _OTHER_DATA)
    cluster.create("statefulsets.apps", "s", spec)
    cluster.run(5)
    status = cluster.get("statefulsets.apps", "s")["status"]
    assert (status["collisionCount"], status["updateRevision"]) == (1, f"s-{digests[1]}")
    revision = cluster.get(REVISIONS, f"s-{digests[1]}")
    assert revision["metadata"]["labels"] == {"app": "web", _LABEL: digests[0]}


def test_stateful_set_goes_on_counting_from_its_status(cluster: Cluster) -> None:
    spec = set_spec(replicas=0, serviceName="s")
    data = make_template_patch(_default_template(cluster, "statefulsets.apps", spec))
    created = cluster.create("statefulsets.apps", "s", spec)
    status = {"collisionCount": 3, "replicas": 0}
    cluster.api.update_status("statefulsets.apps", {**created, "status": status})
    cluster.run(5)
    assert _names(cluster) == [f"s-{compute_revision_hash(data, 3)}"]
    assert cluster.get("statefulsets.apps", "s")["status"]["collisionCount"] == 3


def test_daemon_set_counts_a_collision_and_tries_another_name(cluster: Cluster) -> None:
    stored = _default_template(cluster, "daemonsets.apps", set_spec())
    digests = [compute_template_hash(stored, collisions) for collisions in range(2)]
    _add(cluster, f"d-{digests[0]}", _OTHER_DATA)
    cluster.create("daemonsets.apps", "d", set_spec())
    cluster.run(5)
    assert cluster.get("daemonsets.apps", "d")["status"]["collisionCount"] == 1
    assert _names(cluster) == sorted(f"d-{digest}" for digest in digests)


def test_daemon_set_uses_the_revision_of_its_name_with_its_template(cluster: Cluster) -> None:
    stored = _default_template(cluster, "daemonsets.apps", set_spec())
    digest = compute_template_hash(stored)
    _add(cluster, f"d-{digest}", make_template_patch(stored))
    cluster.api.modify(
        REVISIONS,
        f"d-{digest}",
        NAMESPACE,
        lambda revision: revision["metadata"].update(labels={"controller-revision-hash": digest}),
    )
    cluster.create("daemonsets.apps", "d", set_spec())
    cluster.run(5)
    status = cluster.get("daemonsets.apps", "d")["status"]
    assert (status.get("collisionCount"), status["numberReady"]) == (None, 1)
    assert _names(cluster) == [f"d-{digest}"]


@pytest.mark.parametrize(
    ("surplus", "live", "left"),
    [
        (-1, (), ["a", "b", "c"]),
        (0, (), ["a", "b", "c"]),
        (1, (), ["b", "c"]),
        (2, ("a",), ["a"]),
        (9, ("b",), ["b"]),
    ],
)
def test_truncation_deletes_the_oldest_that_are_not_live(
    cluster: Cluster, surplus: int, live: tuple[str, ...], left: list[str]
) -> None:
    for name, number in (("c", 3), ("a", 1), ("b", 2)):
        _add(cluster, name, _OTHER_DATA, number)
    history = ControllerHistory(cluster.api, ControllerRefManager(cluster.api, REVISIONS), _KIND)
    history.truncate(
        cluster.every(REVISIONS), surplus, lambda revision: revision["metadata"]["name"] in live
    )
    assert _names(cluster) == left


def test_creating_a_revision_again_returns_the_existing_one(cluster: Cluster) -> None:
    parent = {"metadata": {"name": "s", "namespace": NAMESPACE, "uid": "1"}, "spec": set_spec()}
    history = ControllerHistory(cluster.api, ControllerRefManager(cluster.api, REVISIONS), _KIND)
    revision = new_revision(parent, _KIND, 1, "s-1", {_LABEL: "1"})
    created = history.create_revision(revision)
    assert history.create_revision(revision) == created
    with pytest.raises(StatusError) as error:
        history.create_revision({**revision, "data": _OTHER_DATA})
    assert error.value.reason == "AlreadyExists"
    assert find_equal_revisions([created], revision["data"]) == [created]
    assert find_equal_revisions([created], _OTHER_DATA) == []


def test_long_names_are_cut_for_the_hash() -> None:
    assert make_revision_name("s" * 230, "abc") == "s" * 223 + "-abc"
