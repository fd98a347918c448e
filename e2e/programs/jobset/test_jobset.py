"""JobSet, a published operator, from its own manifests: certificates, webhooks, Jobs, names."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from e2e.conftest import PROGRAMS
from e2e.programs.jobset.build import NOT_BUILT, find_manifests, find_program
from e2e.raising import raises
from pytest_kwait import ApiError

if TYPE_CHECKING:
    from pytest_kwait import Kwait


pytestmark = [
    pytest.mark.needs(PROGRAMS),
    pytest.mark.kwait_skip_unless_programs_isolated,
    pytest.mark.skipif(not find_program().exists(), reason=NOT_BUILT),
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl builds its manifests"),
]

_SHELL = "kwait.test/shop/shell:1"


def jobset(name: str, *jobs: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return a JobSet of replicated Jobs."""
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {"replicatedJobs": list(jobs), **spec},
    }


def replicated_job(name: str, script: str, *, replicas: int = 1, **spec: Any) -> dict[str, Any]:
    """Return a replicated Job whose pods run a script in the machine's shell."""
    containers = [{"name": "main", "image": _SHELL, "args": [script]}]
    # The shell is process 1 of its pod, which TERM does not end.
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": containers}
    return {
        "name": name,
        "replicas": replicas,
        "template": {"spec": {"template": {"spec": pod}, "backoffLimit": 0, **spec}},
    }


def test_it_runs_from_its_own_manifests(kwait: Kwait) -> None:
    """In one test, as its definition and its webhooks have names of the cluster."""
    kwait.apply(find_manifests(), namespace=kwait.namespace)
    kwait.wait_for_deployment_complete("jobset-controller-manager")
    # It makes the certificate of its webhooks itself.
    kwait.wait_for_webhook_ready(
        "mutatingwebhookconfiguration/jobset-mutating-webhook-configuration",
        jobset("probe", replicated_job("main", "true")),
        mutation={"spec": {"startupPolicy": {"startupPolicyOrder": "AnyOrder"}}},
    )

    create_jobs_that_find_each_other(kwait)
    create_a_job_that_fails(kwait)
    with raises(ApiError, "JobSet name is too long, job names generated for this JobSet"):
        kwait.create(jobset("x" * 60, replicated_job("main", "true")))

    done = kwait.wait_for("jobset/hello", "condition=Completed")
    assert done["status"]["terminalState"] == "Completed"
    pods = kwait.list("pods", selector="jobset.sigs.k8s.io/jobset-name=hello")
    assert sorted(pod["spec"]["hostname"] for pod in pods) == [
        "hello-leader-0-0",
        *(f"hello-worker-{job}-{index}" for job in (0, 1) for index in (0, 1)),
    ]
    failed = kwait.wait_for("jobset/fragile", "condition=Failed")
    assert failed["status"]["restarts"] == 1
    assert "fragile-bad-0" in str(failed["status"]["conditions"])
    kwait.wait_for("job/fragile-good-0", "delete")


def create_jobs_that_find_each_other(kwait: Kwait) -> None:
    """Create a leader, and two Jobs of two workers that find it by its name.

    The leader stays until all four have come: a pod that is done has no name.
    """
    listen = "import socket; s = socket.create_server(('', 8080)); [s.accept() for _ in range(4)]"
    leader = replicated_job("leader", f'python3 -c "{listen}"')
    code = "import socket; socket.create_connection(('hello-leader-0-0.hello', 8080))"
    find_leader = f'until python3 -c "{code}"; do sleep 0.5; done'
    worker = replicated_job("worker", find_leader, replicas=2, parallelism=2, completions=2)
    kwait.create(jobset("hello", leader, worker, network={"enableDNSHostnames": True}))


def create_a_job_that_fails(kwait: Kwait) -> None:
    """Create a Job that fails, beside one that runs; its set may begin once more."""
    jobs = replicated_job("good", "sleep 300"), replicated_job("bad", "exit 3")
    kwait.create(jobset("fragile", *jobs, failurePolicy={"maxRestarts": 1}))
