"""Golden failure messages of waits and verbs on sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.resource import DAEMON_SETS, PODS, REPLICATION_CONTROLLERS
from pytest_kwait.errors import WaitFailed
from pytest_kwait.framework.daemonset import wait_for_daemon_set_running_on_all_nodes
from pytest_kwait.framework.operations.rolling_update import rolling_update
from pytest_kwait.framework.operations.scale import scale
from pytest_kwait.framework.rc import wait_for_rc_pods_running
from tests.framework.workload_samples import stuck
from tests.framework.writable_session import WritingSession
from tests.objects import condition, owned_pod, workload

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

REFUSED = condition(
    "ReplicaFailure",
    reason="FailedCreate",
    message='pods "web-x" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1',
)


@pytest.fixture
def session() -> WritingSession:
    return WritingSession()


def web_controller(**status: Any) -> Any:
    return workload("ReplicationController", status={"replicas": 1, **status})


def test_a_node_without_its_daemon(client: ApiClient, session: WritingSession) -> None:
    session.put(
        DAEMON_SETS,
        {
            "metadata": {"name": "web", "uid": "uid-web", "generation": 1},
            "spec": {"selector": {"matchLabels": {"app": "web"}}},
            "status": {"observedGeneration": 1, "desiredNumberScheduled": 2},
        },
    )
    session.put(PODS, owned_pod("web", "web-a", ready=True, nodeName="node-a"))
    session.put(PODS, stuck("web", "web-b"))

    with pytest.raises(WaitFailed) as caught:
        wait_for_daemon_set_running_on_all_nodes(client, "ci-1", "web")

    assert str(caught.value) == DAEMON


DAEMON = """\
daemonset ci-1/web can no longer have one available pod on each node that it is to run on:
    pod web-b: InvalidImageName: nope
  awaited   daemonset ci-1/web to have one available pod on each node that it is to run on
  limit     5m0s, ended after 5s (watch mode)
  seen      pods: 1 ready, 1 Pending (InvalidImageName)
  timeline
       0.0s  final if it holds for 5s: pod web-b: InvalidImageName: nope
       5.0s  pod web-b: InvalidImageName: nope
  pods
    web-b Pending on node-1
      main: waiting: InvalidImageName: nope
    web-a Running on node-a, ready
  try: kubectl --namespace ci-1 describe pod/web-b"""


def test_pods_that_are_refused(client: ApiClient, session: WritingSession) -> None:
    session.put(REPLICATION_CONTROLLERS, web_controller(conditions=[REFUSED]))
    session.put(PODS, owned_pod("web", "web-a"))

    with pytest.raises(WaitFailed) as caught:
        wait_for_rc_pods_running(client, "ci-1", "web", 2)

    assert str(caught.value) == PODS_REFUSED


PODS_REFUSED = """\
replicationcontroller ci-1/web can no longer have exactly 2 pods Running: FailedCreate: pods
    "web-x" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1
  awaited   replicationcontroller ci-1/web to have exactly 2 pods Running
  limit     10m0s, ended after 45s (watch mode)
  seen      pods: 1 Running
  timeline
       0.0s  final if it holds for 45s: FailedCreate: pods "web-x" is forbidden: exceeded...
      45.0s  FailedCreate: pods "web-x" is forbidden: exceeded quota: small, requested: p...
  pods
    web-a Running on node-1
  try: kubectl --namespace ci-1 describe replicationcontrollers/web"""


def test_pods_of_another_scale(client: ApiClient, session: WritingSession) -> None:
    session.scales["web"] = {
        "metadata": {"uid": "uid-web"},
        "status": {"replicas": 1, "selector": "app=web"},
    }
    session.put(REPLICATION_CONTROLLERS, web_controller())
    session.put(PODS, owned_pod("web", "web-a", ready=True))
    session.put(PODS, stuck("web", "web-b"))

    with pytest.raises(WaitFailed) as caught:
        scale(client, "ci-1", "rc/web", 2)

    assert str(caught.value) == SCALED


SCALED = """\
replicationcontroller ci-1/web can no longer have exactly 2 pods, Running and ready: pod
    web-b: InvalidImageName: nope
  awaited   replicationcontroller ci-1/web to have exactly 2 pods, Running and ready
  limit     10m0s, ended after 5s (watch mode)
  seen      pods: 1 ready, 1 Pending (InvalidImageName)
  timeline
       0.0s  final if it holds for 5s: pod web-b: InvalidImageName: nope
       5.0s  pod web-b: InvalidImageName: nope
  pods
    web-b Pending on node-1
      main: waiting: InvalidImageName: nope
    web-a Running on node-1, ready
  try: kubectl --namespace ci-1 describe pod/web-b"""


def test_a_deleted_controller_creates_no_other_pods(
    client: ApiClient, session: WritingSession
) -> None:
    session.put(REPLICATION_CONTROLLERS, web_controller())
    session.put(PODS, owned_pod("web", "web-a"))
    session.then = lambda *_: session.drop(PODS, "web-a")
    session.at(8, session.drop, REPLICATION_CONTROLLERS, "web")

    with pytest.raises(WaitFailed) as caught:
        rolling_update(client, "ci-1", "rc/web", 1)

    assert str(caught.value) == ORPHANED


ORPHANED = """\
replicationcontroller ci-1/web can no longer have 1 pod again after its rolling update: the
    replicationcontroller was deleted
  awaited   replicationcontroller ci-1/web to have 1 pod again after its rolling update
  limit     5m0s, ended after 11s (poll mode)
  option    follow_name=True waits for a new replicationcontroller of this name
  timeline
       0.0s  deleting pod web-a, 1 of 1
       1.0s  deleted 1 of 1 pod
       1.0s  0 of 1 pod: none
      11.0s  the replicationcontroller was deleted
  try: kubectl --namespace ci-1 get events"""
