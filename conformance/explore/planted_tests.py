"""Ten tests with a race each, as people write them; `test_repaired_tests` has them without it.

Not collected by itself: `pytest conformance/explore/planted_tests.py --kwait-explore 200`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import kubernetes

from conformance.explore.workloads import (
    BUSY,
    PROBED,
    SERVICE,
    is_ready,
    look_around,
    second_connection,
)
from e2e.objects import container, deployment, job, pod
from pytest_kwait import at_least
from pytest_kwait.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from pytest_kwait import Kwait


def test_status_after_a_change(kwait: Kwait) -> None:
    """Reads the status once after the change; controllers write it later."""
    kwait.create_and_wait(deployment("web", 1, BUSY))
    kwait.patch("deployment/web", {"spec": {"replicas": 2}})
    kwait.wait_for("pods", "condition=Ready", selector="app=web", count=at_least(2))
    look_around(kwait)
    assert kwait.get("deployment/web")["status"]["readyReplicas"] == 2


def test_readiness_of_a_running_pod(kwait: Kwait) -> None:
    """Takes Running for Ready; a probe decides that, in a sync and a status of its own."""
    kwait.create(pod("web", PROBED))
    kwait.wait_for_pod_running("web")
    SYSTEM_CLOCK.sleep(0.15)
    assert is_ready(kwait.get("pod/web"))


def test_number_of_events(kwait: Kwait) -> None:
    """Counts events; components write them later, and merge them."""
    kwait.create(pod("web", BUSY))
    kwait.wait_for_pod_ready("web")
    look_around(kwait)
    assert len(kwait.events("pod/web")) == 4


def test_same_name_again(kwait: Kwait) -> None:
    """Creates a name again that is still being deleted."""
    jobs: Any = kubernetes.client.BatchV1Api(kwait.client)
    kwait.create(job("pi", BUSY))
    kwait.wait_for_job_ready("pi", 1)
    kwait.delete("job/pi", propagation="Foreground")
    look_around(kwait)
    jobs.create_namespaced_job(kwait.namespace, job("pi", BUSY))


def test_endpoints_of_a_ready_pod(kwait: Kwait) -> None:
    """Looks for the endpoint of a pod that is ready; another controller writes it."""
    kwait.create(SERVICE, pod("web", PROBED, labels={"app": "web"}))
    kwait.wait_for_pod_ready("web")
    look_around(kwait)
    (found,) = kwait.list("endpointslices")
    assert [each["conditions"]["ready"] for each in found["endpoints"]] == [True]


def test_update_of_an_earlier_state(kwait: Kwait) -> None:
    """Writes back what it has read before something else; the controller may have written."""
    apps: Any = kubernetes.client.AppsV1Api(kwait.client)
    kwait.create(deployment("web", 1, BUSY))
    kwait.wait_for_pods_running_ready(1)
    look_around(kwait)
    found = apps.read_namespaced_deployment("web", kwait.namespace)
    kwait.create_and_wait(pod("client", BUSY))
    found.spec.paused = True
    apps.replace_namespaced_deployment("web", kwait.namespace, found)


def test_cache_after_a_wait(kwait: Kwait) -> None:
    """Reads from a cache what a wait has seen; the cache has a watch of its own."""
    with second_connection(kwait, "pods") as seen:
        kwait.create(pod("web", BUSY))
        kwait.wait_for_pod_running("web")
        look_around(kwait)
        assert [each["status"]["phase"] for each in seen.list()] == ["Running"]


def test_order_of_two_pods(kwait: Kwait) -> None:
    """Takes it that the pod that was created first runs first."""
    kwait.create(pod("database", BUSY))
    look_around(kwait)
    kwait.create_and_wait(pod("web", BUSY))
    assert kwait.get("pod/database")["status"]["phase"] == "Running"


def test_address_of_a_scheduled_pod(kwait: Kwait) -> None:
    """Reads the address of a pod that has a node; its sandbox gets the address."""
    kwait.create(pod("web", BUSY))
    kwait.wait_for_pod_scheduled("web")
    look_around(kwait)
    assert kwait.get("pod/web")["status"]["podIP"]


def test_passing_state(kwait: Kwait) -> None:
    """Awaits that a short pod runs; it may have ended before anything hears of it."""
    kwait.create(pod("hello", container(command=["sleep", "0.1"])))
    kwait.wait_for_pod_running("hello")
    kwait.wait_for_pod_success("hello")
