"""Tests that hold under every order of events that is legal."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from conformance.explore.workloads import BUSY, PROBED, SERVICE
from e2e.objects import config_map, container, deployment, job, pod, stateful_set
from pytest_kwait import at_least
from pytest_kwait.leaderelection import LeaderElector, LeaseLock

if TYPE_CHECKING:
    from pytest_kwait import Kwait
    from pytest_kwait.wait import Context

COUNTER = config_map("counter", value="0")


def _begin(leads: threading.Event, _ctx: Context) -> None:
    leads.set()


def test_rolling_update(kwait: Kwait) -> None:
    """Awaits the revision that it has asked for, not any complete one."""
    kwait.create_and_wait(deployment("web", 2, BUSY))
    note = {"spec": {"template": {"metadata": {"annotations": {"release": "2"}}}}}
    kwait.patch("deployment/web", note)
    kwait.wait_for_rollout_status("deployment/web")
    releases = {
        each["metadata"].get("annotations", {}).get("release")
        for each in kwait.list("pods", selector="app=web")
        if "deletionTimestamp" not in each["metadata"]
    }
    assert releases == {"2"}


def test_scale_down(kwait: Kwait) -> None:
    """Awaits the number of pods, not of those that are ready alone."""
    kwait.create_and_wait(deployment("web", 3, BUSY))
    kwait.patch("deployment/web", {"spec": {"replicas": 1}})
    kwait.wait_for_number_of_pods(1, selector="app=web")


def test_results_of_a_job(kwait: Kwait) -> None:
    """Reads logs once the Job is complete, when all of its pods have ended."""
    kwait.create(job("pi", container(script="echo 3.14"), completions=2, parallelism=2))
    kwait.wait_for_job_complete("pi")
    pods = kwait.list("pods", selector="job-name=pi")
    assert [kwait.logs(each) for each in pods] == ["3.14\n"] * 2


def test_failure_of_a_job(kwait: Kwait) -> None:
    """Awaits the condition of the Job, whichever pod failed when."""
    kwait.create(job("pi", container(script="exit 3"), backoffLimit=0))
    found = kwait.wait_for_job_failed("pi")
    assert found["status"]["failed"] == 1


def test_writers_of_one_object(kwait: Kwait) -> None:
    """Adds with three writers; each reads again after a conflict."""

    def add(found: dict[str, Any]) -> None:
        found["data"]["value"] = str(int(found["data"]["value"]) + 1)

    kwait.create(COUNTER)
    writers = [
        threading.Thread(target=kwait.update, args=("configmap/counter", add)) for _ in range(3)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert kwait.get("configmap/counter")["data"] == {"value": "3"}


def test_dependents_of_a_deleted_owner(kwait: Kwait) -> None:
    """Awaits the end of what the garbage collector removes."""
    (owner,) = kwait.create(COUNTER)
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "counter"}
    metadata = {
        "name": "copy",
        "ownerReferences": [{**reference, "uid": owner["metadata"]["uid"]}],
    }
    kwait.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    kwait.delete("configmap/counter")
    kwait.wait_for("configmap/copy", "delete")


def test_second_namespace(kwait: Kwait) -> None:
    """Deletes a namespace, and awaits that it is gone with all that is in it."""
    other = kwait.create_namespace("other")
    other.create(pod("web", BUSY))
    other.wait_for_pod_ready("web")
    kwait.delete(f"namespace/{other.namespace}")
    kwait.wait_for_namespaces_deleted([other.namespace])


def test_pods_of_a_stateful_set(kwait: Kwait) -> None:
    """Takes only the order for granted that a StatefulSet promises."""
    kwait.create(SERVICE, stateful_set("web", 2, BUSY))
    kwait.wait_for_stateful_set_running_and_ready("web", 2)
    times = [kwait.get(f"pod/web-{number}")["metadata"]["creationTimestamp"] for number in range(2)]
    assert times == sorted(times)


def test_any_ready_server(kwait: Kwait) -> None:
    """Awaits a minimum while the number changes."""
    kwait.create(SERVICE, deployment("web", 3, BUSY), pod("probed", PROBED))
    kwait.wait_for("pods", "condition=Ready", selector="app=web", count=at_least(2))
    kwait.wait_for_endpoint_count("web", 3)


def test_leader_that_stops(kwait: Kwait) -> None:
    """Awaits each leader; which of two comes first is open."""
    stops = [threading.Event() for _ in range(2)]
    leads = [threading.Event() for _ in range(2)]
    electors = [
        LeaderElector(
            LeaseLock(kwait.client, kwait.namespace, "leader", str(number)),
            lease_duration=15,
            renew_deadline=10,
            retry_period="100ms",
            release_on_cancel=True,
            on_started_leading=partial(_begin, lead),
            on_stopped_leading=lambda: None,
        )
        for number, lead in enumerate(leads)
    ]
    threads = [
        threading.Thread(target=elector.run, args=(stop,))
        for elector, stop in zip(electors, stops, strict=True)
    ]
    for thread in threads:
        thread.start()
    try:
        held = kwait.wait_for("lease/leader", "jsonpath={.spec.holderIdentity}")
        first = int(held["spec"]["holderIdentity"])
        stops[first].set()
        assert leads[1 - first].wait(60)
    finally:
        for stop in stops:
            stop.set()
        for thread in threads:
            thread.join(60)
