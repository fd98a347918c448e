"""Waits while the API server, or etcd, is killed and starts again.

Needs a control plane of its own, run by
`python -m tools.controlplane run -- pytest conformance/faults`.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conformance.faults.core_families import CORE_FAMILIES
from conformance.faults.family import Family, Place
from conformance.faults.trial import LATE, TRIES, ProcessStalls
from pytest_kwait import WaitTimeout, wait_for
from pytest_kwait.client.resource import CONFIG_MAPS, NAMESPACES, NODES, Resource
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import SYSTEM_CLOCK, Deadline
from pytest_kwait.clusters.provider import connect
from pytest_kwait.engine.retry import request_with_retry
from pytest_kwait.engine.waiter import LAST_ROUND
from tools.controlplane import assets
from tools.controlplane.disposable import DisposableControlPlane, run_control_plane

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubernetes.client import ApiClient

TIMEOUT = 60.0
LIMIT = 3.0
UNDER_WAY = 1.0
"""Seconds after which every wait watches."""

NODE = "without-kubelet"
"""A node without a kubelet."""

ROLES = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", True)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DisposableControlPlane]:
    programs = os.environ.get("KUBEBUILDER_ASSETS", "")
    if not Path(programs).is_relative_to(assets.storage()) or not programs:
        pytest.skip("only `python -m tools.controlplane run` has servers that may be killed")
    with run_control_plane(tmp_path_factory.mktemp("plane") / "cluster") as plane:
        session = ApiSession.of(connect(plane.kubeconfig).client())
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
        session.create(NODES, node, deadline=Deadline.after(TIMEOUT))
        yield plane


@pytest.mark.parametrize("victim", ["kube-apiserver", "etcd"])
def test_wait_survives_a_killed_server(plane: DisposableControlPlane, victim: str) -> None:
    """As an administrator, and as a user with a role that a starting server reads late."""
    direct = connect(plane.kubeconfig).client()
    place = Place(direct, namespace(direct, victim), NODE, lambda _, pod: pod)
    families = [family(place, f"killed-{i}") for i, family in enumerate(CORE_FAMILIES)]
    cases = [(user, family) for user in ("admin", "powerless") for family in families]
    clients = {user: connect(plane.kubeconfig, user).client() for user, _ in cases}
    with ThreadPoolExecutor(len(cases)) as pool:
        for family in families:
            family.prepare()
        waits = [pool.submit(family.wait, clients[user], TIMEOUT) for user, family in cases]
        SYSTEM_CLOCK.sleep(UNDER_WAY)
        plane.kill(victim)
        until_ready(direct)
        for family in families:
            family.fulfill()
        results = [wait.result() for wait in waits]

    assert {
        (user, family.title): family.is_expected_result(result)
        for (user, family), result in zip(cases, results, strict=True)
    } == {(user, family.title): True for user, family in cases}


@pytest.mark.usefixtures("short_evidence_limit")
def test_wait_keeps_its_timeout_while_a_server_is_killed(plane: DisposableControlPlane) -> None:
    """Within a second, at any stage of the server's start, after a last round without an answer.

    A wait that ends late is tried again: only a defect makes it late each time.
    """
    direct = connect(plane.kubeconfig).client()
    place = Place(direct, namespace(direct, "limits"), NODE, lambda _, pod: pod)
    families = [family(place, f"limit-{i}") for i, family in enumerate(CORE_FAMILIES)]
    client = connect(plane.kubeconfig).client()

    def waited(family: Family) -> tuple[float, float]:
        begun = SYSTEM_CLOCK.monotonic()
        with pytest.raises(WaitTimeout) as caught:
            family.wait(client, LIMIT)
        told = caught.value.waited
        took = SYSTEM_CLOCK.monotonic() - begun if told is None else told
        assert took >= LIMIT, family.title
        return took, stalls.between(begun + LIMIT, begun + took)

    for family in families:
        family.prepare()
    late, took = families, []
    with ProcessStalls() as stalls, ThreadPoolExecutor(len(families)) as pool:
        for _ in range(TRIES):
            waits = [pool.submit(waited, family) for family in late]
            SYSTEM_CLOCK.sleep(UNDER_WAY)
            plane.kill("kube-apiserver")
            took = [(family, *wait.result()) for family, wait in zip(late, waits, strict=True)]
            until_ready(direct)
            latest = LIMIT + LAST_ROUND + LATE
            late = [family for family, each, held_up in took if each >= latest + held_up]
            if not late:
                break

    assert late == [], took


def namespace(client: ApiClient, name: str) -> str:
    """A namespace in which `powerless` may read."""
    session, deadline = ApiSession.of(client), Deadline.after(TIMEOUT)
    session.create(
        NAMESPACES,
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
        deadline=deadline,
    )
    session.create(
        ROLES,
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "looks"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "view",
            },
            "subjects": [
                {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "powerless"}
            ],
        },
        name,
        deadline=deadline,
    )
    wait_for(client, name, "serviceaccount/default", "create", timeout=TIMEOUT)
    return name


def until_ready(client: ApiClient) -> None:
    """Return once the API server is ready, and its storage accepts writes."""
    session, deadline = ApiSession.of(client), Deadline.after(TIMEOUT)
    trace = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "trace"}}
    request_with_retry(lambda left: session.request("GET", "/readyz", deadline=left), deadline)
    request_with_retry(
        lambda left: session.apply(CONFIG_MAPS, trace, "default", deadline=left), deadline
    )
