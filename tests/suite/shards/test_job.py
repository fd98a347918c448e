"""A suite as an Indexed Job: what is submitted, and what becomes of its pods."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Self

import pytest

import pytest_kwait.suite.shards.job as shard_job
from pytest_kwait.client.resource import JOBS, NODES, PODS, SERVICE_ACCOUNTS
from pytest_kwait.clock import Deadline
from pytest_kwait.errors import ApiError, ClusterError, InvalidArgument, WaitFailed
from pytest_kwait.suite.shards.job import ShardJob, ShardOutcome, ShardSuite
from pytest_kwait.suite.shards.pod import ShardResults, pack_results
from tests.suite.fakes import FakeCluster

if TYPE_CHECKING:
    from collections.abc import Callable

SUITE = ShardSuite("r1", 2, ("python",), ("e2e", "-q"), "suite:1")


def test_the_job_that_is_submitted() -> None:
    job = SUITE.manifest(600)
    pod = job["spec"].pop("template")
    assert job["metadata"]["generateName"] == "kwait-shards-r1-"
    assert job["spec"] == {
        "completionMode": "Indexed",
        "completions": 2,
        "parallelism": 2,
        "backoffLimitPerIndex": 0,
        "activeDeadlineSeconds": 660,
        "ttlSecondsAfterFinished": 3600,
    }
    assert pod["metadata"]["labels"] == job["metadata"]["labels"]
    assert pod["spec"] == {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 120,
        "containers": [
            {
                "name": "pytest",
                "image": "suite:1",
                "command": ["python", "-m", "pytest_kwait.suite.shards.pod"],
                "args": [
                    "e2e",
                    "-q",
                    "--kwait-cluster=existing",
                    "--kwait-run-id=r1",
                    "--kwait-shard=auto/2",
                ],
            }
        ],
    }


def test_template_adds_fields() -> None:
    template = {
        "metadata": {"labels": {"team": "a"}},
        "spec": {
            "terminationGracePeriodSeconds": 5,
            "containers": [
                {"name": "proxy", "image": "proxy:1"},
                {"name": "pytest", "image": "suite:2", "resources": {"limits": {"cpu": "1"}}},
            ],
        },
    }
    suite = ShardSuite(
        "r1", 8, ("python",), (), parallelism=3, service_account="e2e", template=template
    )
    job = suite.manifest(60)
    spec = job["spec"]["template"]["spec"]
    assert (job["spec"]["completions"], job["spec"]["parallelism"]) == (8, 3)
    assert job["spec"]["template"]["metadata"]["labels"]["team"] == "a"
    assert (spec["serviceAccountName"], spec["terminationGracePeriodSeconds"]) == ("e2e", 5)
    assert spec["containers"][0] == {"name": "proxy", "image": "proxy:1"}
    tests = spec["containers"][1]
    assert (tests["image"], tests["resources"]) == ("suite:2", {"limits": {"cpu": "1"}})
    assert tests["args"][-1] == "--kwait-shard=auto/8"
    assert "command" not in template["spec"]["containers"][1]  # type: ignore[index]


def test_an_image_is_needed() -> None:
    with pytest.raises(InvalidArgument) as caught:
        ShardSuite("r1", 2, ("python",), ()).manifest(60)
    assert str(caught.value) == (
        "--image=None is not valid: the image that has the suite and pytest-kwait in it"
    )


class Informers:
    """A factory with an informer of pods that the test drives."""

    def __init__(self, *_: object, namespace: str, label_selector: str) -> None:
        self.asked = (namespace, label_selector)

    def informer_for(self, kind: str) -> Informers:
        assert (kind, self.asked[1]) == ("pods", "batch.kubernetes.io/job-name=kwait-shards-r1-1")
        return self

    def add_event_handler(
        self, add: Callable[[Any], None], update: Callable[[Any, Any], None]
    ) -> None:
        self.add, self.update = add, update

    def wait_for_cache_sync(self, timeout: float) -> None:
        assert 0 < timeout <= 30

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return


class ShardJobHarness:
    """A job with pods and logs of the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster = FakeCluster()
        node = {"metadata": {"name": "n1"}, "status": {"nodeInfo": {"osImage": "Debian"}}}
        self.cluster.transport.objects[NODES.path(None, "n1")] = node
        self.told: list[str] = []
        self.done: list[ShardOutcome] = []
        self.logs: dict[str, str] = {}
        self.job = ShardJob(
            self.cluster.client(), "ci", SUITE, report=self.told.append, done=self.done.append
        )
        self.meanwhile: Callable[[], object] = lambda: None
        self.informers = Informers(namespace="", label_selector="")
        monkeypatch.setattr(shard_job, "wait_for_job_finish", self._finish)
        monkeypatch.setattr(shard_job, "SharedInformerFactory", self._inform)
        monkeypatch.setattr(self.job._session, "logs", self._log)

    def _inform(self, *args: object, **options: str) -> Informers:
        self.informers = Informers(*args, **options)
        return self.informers

    def pod(self, index: int, phase: str, **status: Any) -> dict[str, Any]:
        name = f"kwait-shards-r1-1-{index}"
        pod = self.cluster.transport.objects[PODS.path("ci", name)] = {
            "metadata": {
                "name": name,
                "namespace": "ci",
                "uid": name,
                "resourceVersion": "1",
                "labels": {"batch.kubernetes.io/job-name": "kwait-shards-r1-1"},
                "annotations": {"batch.kubernetes.io/job-completion-index": str(index)},
            },
            "spec": {"nodeName": "n1", "containers": [{"name": "pytest"}]},
            "status": {"phase": phase, **status},
        }
        return pod

    def run(self) -> None:
        self.job.run(Deadline.after(30))

    @property
    def jobs(self) -> list[str]:
        return [path for path in self.cluster.transport.objects if "/jobs/" in path]

    def _finish(self, *_: object, **__: object) -> None:
        assert len(self.jobs) == 1
        self.meanwhile()

    def _log(self, _namespace: str, pod: str, **_: object) -> str:
        if pod not in self.logs:
            raise ApiError("gone", status=404)
        return self.logs[pod]


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> ShardJobHarness:
    return ShardJobHarness(monkeypatch)


def test_results_are_taken_as_pods_end(harness: ShardJobHarness) -> None:
    def end() -> None:
        harness.informers.add(harness.pod(1, "Pending"))
        harness.informers.add(harness.pod(0, "Running"))
        harness.informers.update({}, harness.pod(0, "Running"))
        harness.informers.update({}, harness.pod(1, "Succeeded"))
        harness.informers.update({}, harness.pod(1, "Succeeded"))
        assert [each.number for each in harness.done] == [2]
        # Its informer is late: the last look finds it.
        harness.pod(0, "Succeeded")

    harness.meanwhile = end
    harness.logs = {
        "kwait-shards-r1-1-0": "one\n" + pack_results(0, {"junit.xml": b"x"}),
        "kwait-shards-r1-1-1": "two\n" + pack_results(1, {}),
    }
    harness.run()

    assert sorted(harness.done, key=lambda each: each.number) == [
        ShardOutcome(
            1,
            "kwait-shards-r1-1-0",
            ShardResults(0, {"junit.xml": b"x"}, "one\n"),
            log="one\n",
        ),
        ShardOutcome(2, "kwait-shards-r1-1-1", ShardResults(1, {}, "two\n"), log="two\n"),
    ]
    assert [each.passed for each in harness.done] == [False, True]
    assert harness.told == [
        "job ci/kwait-shards-r1-1 runs 2 shards",
        "shard 1/2 runs on n1 (pod kwait-shards-r1-1-0)",
    ]
    assert harness.jobs == []


def test_reason_of_a_killed_pod(harness: ShardJobHarness) -> None:
    killed = {"name": "pytest", "state": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}

    def end() -> None:
        harness.pod(0, "Failed", containerStatuses=[killed])
        harness.pod(1, "Failed", reason="Evicted", message="The node was low on memory.")

    harness.meanwhile = end
    harness.logs = dict.fromkeys(("kwait-shards-r1-1-0", "kwait-shards-r1-1-1"), "half\n")
    harness.run()
    assert [(each.reason, each.log, each.passed) for each in harness.done] == [
        ("no results: OOMKilled, exit code 137", "half\n", False),
        ("no results: The node was low on memory.", "half\n", False),
    ]


def test_missing_log_and_missing_pod(harness: ShardJobHarness) -> None:
    harness.meanwhile = lambda: harness.pod(1, "Succeeded")
    harness.run()
    assert [(each.number, each.reason) for each in harness.done] == [
        (2, "its log could not be read: 404: gone"),
        (1, "it did not end"),
    ]


def test_a_job_that_can_no_longer_end_does_not_stay(harness: ShardJobHarness) -> None:
    def fail() -> None:
        raise WaitFailed("image suite:1 cannot be pulled")

    harness.meanwhile = fail
    with pytest.raises(WaitFailed):
        harness.run()
    assert [each.reason for each in harness.done] == ["it did not end", "it did not end"]
    assert harness.jobs == []


def test_refused_job_is_an_error(harness: ShardJobHarness) -> None:
    harness.cluster.transport.refuse(
        "POST", JOBS.path("ci"), ApiError("jobs is forbidden", status=403, reason="Forbidden")
    )
    with pytest.raises(ClusterError, match=re.escape("the Job could not be made: ")):
        harness.run()
    assert harness.done == []


def test_simulated_nodes_are_refused(harness: ShardJobHarness) -> None:
    transport = harness.cluster.transport
    simulated = {"nodeInfo": {"osImage": "pytest-kwait embedded"}}
    transport.objects[NODES.path(None, "n2")] = {"metadata": {"name": "n2"}, "status": simulated}
    with pytest.raises(ClusterError) as caught:
        harness.run()
    assert str(caught.value) == (
        "the nodes of this cluster are simulated and run no images; `kwait shards run` needs a "
        "cluster with real nodes, or run shards beside each other with pytest --kwait-shard=I/N"
    )
    assert transport.requests == ["GET /api/v1/nodes"]


def test_a_cluster_without_nodes_and_controllers_is_refused(harness: ShardJobHarness) -> None:
    transport = harness.cluster.transport
    del transport.objects[NODES.path(None, "n1")]
    with pytest.raises(ClusterError) as caught:
        harness.run()
    assert str(caught.value) == (
        "this cluster has no nodes and no controllers, so nothing runs a Job; use a cluster with "
        "real nodes, or run shards beside each other with pytest --kwait-shard=I/N"
    )
    transport.objects[SERVICE_ACCOUNTS.path("ci", "default")] = {"metadata": {"name": "default"}}
    harness.run()  # an autoscaler adds nodes
    assert harness.jobs == []


def test_forbidden_nodes_are_ignored(harness: ShardJobHarness) -> None:
    forbidden = ApiError("nodes is forbidden", status=403, reason="Forbidden")
    harness.cluster.transport.refuse("GET", NODES.path(), forbidden)
    harness.run()
    assert harness.jobs == []
