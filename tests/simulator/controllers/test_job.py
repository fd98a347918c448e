from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.apimachinery.times import parse_time
from pytest_kwait.simulator.controllers.garbage_collector import seconds_until_expiry
from pytest_kwait.simulator.controllers.job import policies
from tests.simulator.cluster import NAMESPACE, Cluster, conditions, pod_spec

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

_JOBS = "jobs.batch"
_TRACKING = "batch.kubernetes.io/job-tracking"


def _job_spec(script: str, *, policy: str = "Never", pod: Obj | None = None, **more: Any) -> Obj:
    made = pod_spec("sh", "-c", script, restartPolicy=policy, **(pod or {}))
    return {"template": {"spec": made}, **more}


def _told(job: Obj) -> tuple[Any, ...]:
    """active, ready, terminating, succeeded, failed; uncounted; conditions."""
    status = job["status"]
    names = ("active", "ready", "terminating", "succeeded", "failed")
    uncounted = status.get("uncountedTerminatedPods") or {}
    return (
        tuple(status.get(name, 0) for name in names),
        {kind: len(uids) for kind, uids in uncounted.items()},
        list(conditions(job)),
    )


def test_success_is_recorded_then_counted(cluster: Cluster) -> None:
    cluster.create(_JOBS, "j", _job_spec("sleep 3"))
    cluster.run(15)
    assert cluster.states(_JOBS, "j", _told) == [
        ((0, 0, 0, 0, 0), {}, []),
        ((1, 0, 0, 0, 0), {}, []),
        ((1, 1, 0, 0, 0), {}, []),
        ((1, 0, 0, 0, 0), {}, []),
        ((0, 0, 0, 0, 0), {"succeeded": 1}, ["SuccessCriteriaMet"]),
        ((0, 0, 0, 1, 0), {}, ["SuccessCriteriaMet", "Complete"]),
    ]
    status = cluster.get(_JOBS, "j")["status"]
    assert set(status) >= {"startTime", "completionTime"}
    told = {(one["reason"], one["message"]) for one in status["conditions"]}
    assert told == {("CompletionsReached", "Reached expected number of succeeded pods")}
    (pod,) = cluster.every("pods")
    assert cluster.events("j") == [
        f"SuccessfulCreate x1: Created pod: {pod['metadata']['name']}",
        "Completed x1: Job completed",
    ]
    finalizers = cluster.states(
        "pods", pod["metadata"]["name"], lambda one: one["metadata"].get("finalizers")
    )
    assert finalizers == [[_TRACKING], None]
    assert pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "j"


def test_completions_are_reached_with_limited_parallelism(cluster: Cluster) -> None:
    cluster.create(_JOBS, "j", _job_spec("sleep 2", completions=3, parallelism=2))
    cluster.run(20)
    assert max(told[0][0] for told in cluster.states(_JOBS, "j", _told)) == 2
    assert _told(cluster.get(_JOBS, "j"))[0] == (0, 0, 0, 3, 0)
    assert conditions(cluster.get(_JOBS, "j"))["Complete"] == "True CompletionsReached"


def test_failed_pod_is_replaced_after_a_delay_that_doubles(cluster: Cluster) -> None:
    cluster.create(_JOBS, "j", _job_spec("exit 7", backoffLimit=2))
    cluster.run(60)
    made = [
        cluster.history[position - 1][2]
        for position, (kind, change, _) in enumerate(cluster.history, start=1)
        if kind == "pods" and change == "ADDED"
    ]
    begun = [parse_time(pod["metadata"]["creationTimestamp"]) for pod in made]
    assert [later - sooner for sooner, later in itertools.pairwise(begun)] == [11.0, 21.0]
    assert _told(cluster.get(_JOBS, "j"))[0] == (0, 0, 0, 0, 3)
    job = cluster.get(_JOBS, "j")
    assert conditions(job) == {
        "FailureTarget": "True BackoffLimitExceeded",
        "Failed": "True BackoffLimitExceeded",
    }
    assert (
        cluster.events("j")[-1]
        == "BackoffLimitExceeded x1: Job has reached the specified backoff limit"
    )


def test_fast_time_shortens_the_delay() -> None:
    cluster = Cluster(scale=0.1)
    cluster.create(_JOBS, "j", _job_spec("exit 7", backoffLimit=1))
    cluster.run(3)
    assert conditions(cluster.get(_JOBS, "j"))["Failed"] == "True BackoffLimitExceeded"


def test_deadline_deletes_pods_before_the_job_fails(cluster: Cluster) -> None:
    pod = {"terminationGracePeriodSeconds": 2}
    cluster.create(_JOBS, "j", _job_spec("sleep 99", pod=pod, activeDeadlineSeconds=4))
    cluster.run(12)
    seen = cluster.states(_JOBS, "j", _told)
    assert seen[-4:] == [
        ((0, 0, 1, 0, 0), {"failed": 1}, ["FailureTarget"]),
        ((0, 0, 1, 0, 1), {}, ["FailureTarget"]),
        ((0, 0, 0, 0, 1), {}, ["FailureTarget"]),
        ((0, 0, 0, 0, 1), {}, ["FailureTarget", "Failed"]),
    ]
    assert conditions(cluster.get(_JOBS, "j"))["Failed"] == "True DeadlineExceeded"
    assert cluster.events("j")[-1] == (
        "DeadlineExceeded x1: Job was active longer than specified deadline"
    )


def test_restarts_in_place_count_against_the_limit(cluster: Cluster) -> None:
    cluster.create(_JOBS, "j", _job_spec("exit 1", policy="OnFailure", backoffLimit=1))
    cluster.run(15)
    job = cluster.get(_JOBS, "j")
    assert conditions(job)["Failed"] == "True BackoffLimitExceeded"
    assert job["status"]["failed"] == 1
    assert cluster.reasons("j")[1] == "SuccessfulDelete"


def test_job_can_be_suspended_and_resumed(cluster: Cluster) -> None:
    pod = {"terminationGracePeriodSeconds": 1}
    cluster.create(_JOBS, "j", _job_spec("sleep 99", pod=pod))
    cluster.run(5)
    cluster.change(_JOBS, "j", lambda job: job["spec"].update(suspend=True))
    cluster.run(5)
    job = cluster.get(_JOBS, "j")
    assert conditions(job) == {"Suspended": "True JobSuspended"}
    assert "startTime" not in job["status"]
    assert cluster.every("pods") == []
    assert _told(job)[0] == (0, 0, 0, 0, 0)
    cluster.change(_JOBS, "j", lambda job: job["spec"].update(suspend=False))
    cluster.run(5)
    job = cluster.get(_JOBS, "j")
    assert conditions(job) == {"Suspended": "False JobResumed"}
    assert job["status"]["startTime"] == "2026-01-01T00:00:10Z"
    assert _told(job)[0] == (1, 1, 0, 0, 0)
    assert [one for one in cluster.events("j") if "Job " in one] == [
        "Suspended x1: Job suspended",
        "Resumed x1: Job resumed",
    ]


def test_job_made_suspended_does_not_start(cluster: Cluster) -> None:
    cluster.create(_JOBS, "j", _job_spec("true", suspend=True))
    cluster.run(5)
    job = cluster.get(_JOBS, "j")
    assert (conditions(job), cluster.every("pods")) == ({"Suspended": "True JobSuspended"}, [])


def test_lower_parallelism_deletes_pods_without_counting_them(cluster: Cluster) -> None:
    pod = {"terminationGracePeriodSeconds": 1}
    cluster.create(_JOBS, "j", _job_spec("sleep 99", pod=pod, completions=4, parallelism=3))
    cluster.run(5)
    cluster.change(_JOBS, "j", lambda job: job["spec"].update(parallelism=1))
    cluster.run(5)
    assert _told(cluster.get(_JOBS, "j"))[0] == (1, 1, 0, 0, 0)


def test_work_queue_job_completes_with_its_pods(cluster: Cluster) -> None:
    spec = _job_spec("sleep 2", parallelism=2)
    cluster.create(_JOBS, "j", spec)
    cluster.run(10)
    assert _told(cluster.get(_JOBS, "j"))[0] == (0, 0, 0, 2, 0)
    assert conditions(cluster.get(_JOBS, "j"))["Complete"] == "True CompletionsReached"


def test_index_is_completed_once(cluster: Cluster) -> None:
    spec = _job_spec(
        "sleep $JOB_COMPLETION_INDEX", completionMode="Indexed", completions=3, parallelism=3
    )
    cluster.create(_JOBS, "j", spec)
    cluster.run(10)
    seen = cluster.states(_JOBS, "j", lambda job: job["status"].get("completedIndexes"))
    assert seen == [None, "0", "0,1", "0-2"]
    assert _told(cluster.get(_JOBS, "j"))[0][3] == 3
    pods = sorted(cluster.every("pods"), key=lambda pod: str(pod["metadata"]["name"]))
    for number, pod in enumerate(pods):
        metadata = pod["metadata"]
        assert metadata["name"].startswith(f"j-{number}-")
        assert (
            metadata["annotations"][policies.INDEX]
            == metadata["labels"][policies.INDEX]
            == str(number)
        )
        assert pod["spec"]["hostname"] == f"j-{number}"


def test_failed_index_is_retried_up_to_its_limit(cluster: Cluster) -> None:
    script = "if [ $JOB_COMPLETION_INDEX = 1 ]; then exit 1; fi"
    limits: dict[str, Any] = {
        "backoffLimitPerIndex": 1,
        "completionMode": "Indexed",
        "completions": 2,
        "parallelism": 2,
    }
    cluster.create(_JOBS, "j", _job_spec(script, **limits))
    cluster.run(40)
    job = cluster.get(_JOBS, "j")
    assert conditions(job)["Failed"] == "True FailedIndexes"
    assert (job["status"]["completedIndexes"], job["status"]["failedIndexes"]) == ("0", "1")
    assert job["status"]["failed"] == 2
    counts = [
        pod["metadata"]["annotations"][policies.FAILURE_COUNT]
        for pod in cluster.every("pods")
        if policies.get_completion_index(pod) == 1
    ]
    assert sorted(counts) == ["0", "1"]


def test_too_many_failed_indexes_fail_the_job(cluster: Cluster) -> None:
    limits: dict[str, Any] = {
        "backoffLimitPerIndex": 0,
        "maxFailedIndexes": 0,
        "completionMode": "Indexed",
    }
    cluster.create(_JOBS, "j", _job_spec("exit 1", completions=3, parallelism=1, **limits))
    cluster.run(10)
    assert conditions(cluster.get(_JOBS, "j"))["Failed"] == "True MaxFailedIndexesExceeded"


def test_success_policy_ends_remaining_indexes(cluster: Cluster) -> None:
    script = "if [ $JOB_COMPLETION_INDEX != 0 ]; then sleep 99; fi"
    policy = {"rules": [{"succeededIndexes": "0"}]}
    pod = {"terminationGracePeriodSeconds": 1}
    spec = _job_spec(
        script,
        pod=pod,
        completionMode="Indexed",
        completions=2,
        parallelism=2,
        successPolicy=policy,
    )
    cluster.create(_JOBS, "j", spec)
    cluster.run(15)
    job = cluster.get(_JOBS, "j")
    assert conditions(job) == {
        "SuccessCriteriaMet": "True SuccessPolicy",
        "Complete": "True SuccessPolicy",
    }
    assert job["status"]["conditions"][1]["message"] == "Matched rules at index 0"


def test_failure_policy_fails_the_job_at_once(cluster: Cluster) -> None:
    on_exit = {"containerName": "c", "operator": "In", "values": [42]}
    policy = {"rules": [{"action": "FailJob", "onExitCodes": on_exit}]}
    cluster.create(_JOBS, "j", _job_spec("exit 42", podFailurePolicy=policy))
    cluster.run(10)
    (pod,) = cluster.every("pods")
    where = f"{NAMESPACE}/{pod['metadata']['name']}"
    job = cluster.get(_JOBS, "j")
    assert conditions(job)["Failed"] == "True PodFailurePolicy"
    assert job["status"]["conditions"][0]["message"] == (
        f"Container c for pod {where} failed with exit code 42 matching FailJob rule at index 0"
    )


def test_ignored_failure_does_not_count(cluster: Cluster) -> None:
    on_exit = {"operator": "In", "values": [42]}
    policy = {"rules": [{"action": "Ignore", "onExitCodes": on_exit}]}
    cluster.create(_JOBS, "j", _job_spec("exit 42", backoffLimit=0, podFailurePolicy=policy))
    cluster.run(15)
    job = cluster.get(_JOBS, "j")
    assert (job["status"].get("failed", 0), conditions(job)) == (0, {})
    assert len(cluster.every("pods")) == 2


def test_finished_job_is_deleted_after_ttl(cluster: Cluster) -> None:
    cluster.create(_JOBS, "j", _job_spec("true", ttlSecondsAfterFinished=2))
    cluster.run(15)
    assert cluster.find(_JOBS, "j") is None
    assert cluster.every("pods") == []
    finalizers = cluster.states(_JOBS, "j", lambda job: job["metadata"].get("finalizers"))
    assert finalizers == [None, ["foregroundDeletion"], "DELETED"]


@pytest.mark.parametrize(("propagation", "left"), [("Background", 0), ("Foreground", 0), (None, 1)])
def test_deleted_job_deletes_pods_with_propagation(
    cluster: Cluster, propagation: str | None, left: int
) -> None:
    cluster.create(_JOBS, "j", _job_spec("sleep 99", pod={"terminationGracePeriodSeconds": 1}))
    cluster.run(5)
    cluster.delete(_JOBS, "j", propagation=propagation)
    cluster.run(5)
    assert cluster.find(_JOBS, "j") is None
    pods = cluster.every("pods")
    assert len(pods) == left
    assert all("finalizers" not in pod["metadata"] for pod in pods)


def test_job_of_another_controller_is_ignored(cluster: Cluster) -> None:
    cluster.create(_JOBS, "j", _job_spec("true", managedBy="example.org/other"))
    cluster.run(5)
    assert cluster.every("pods") == []
    assert _told(cluster.get(_JOBS, "j"))[0] == (0, 0, 0, 0, 0)


def test_refused_pod_is_retried(cluster: Cluster) -> None:
    spec = _job_spec("true")
    spec["template"]["spec"]["serviceAccountName"] = "nobody"
    cluster.create(_JOBS, "j", spec)
    cluster.run(20)
    # At 0, 1, 3, 7 and 15 s.
    (refused,) = cluster.events("j")
    assert refused.startswith("FailedCreate x5: ")
    cluster.api.create("serviceaccounts", {"metadata": {"name": "nobody"}}, NAMESPACE)
    cluster.run(15)
    assert conditions(cluster.get(_JOBS, "j"))["Complete"] == "True CompletionsReached"


def test_deleted_pod_counts_as_failed_and_is_replaced(cluster: Cluster) -> None:
    cluster.create(_JOBS, "j", _job_spec("sleep 99", pod={"terminationGracePeriodSeconds": 1}))
    cluster.run(5)
    cluster.delete("pods", cluster.every("pods")[0]["metadata"]["name"])
    cluster.run(20)
    assert _told(cluster.get(_JOBS, "j"))[0] == (1, 1, 0, 0, 1)


# -- pure rules


@pytest.mark.parametrize(
    ("failures", "seconds"), [(0, 0), (1, 10), (2, 20), (3, 40), (6, 320), (7, 600), (50, 600)]
)
def test_retry_delay_doubles_up_to_ten_minutes(failures: int, seconds: float) -> None:
    assert policies.calculate_backoff(failures) == seconds


def test_failures_count_since_the_last_success() -> None:
    retries = policies.BackoffRecord().counting([], [5.0, 3.0])
    assert (retries.failures, retries.last) == (2, 5.0)
    assert retries.counting([], []) == retries
    assert retries.counting([], [9.0]) == policies.BackoffRecord(3, 9.0)
    assert retries.counting([8.0], []) == policies.BackoffRecord()
    assert retries.counting([8.0], [7.0, 9.0]) == policies.BackoffRecord(1, 9.0)


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([], ""),
        ([3], "3"),
        ([0, 1], "0,1"),
        ([0, 1, 2], "0-2"),
        ([5, 1, 3, 4], "1,3-5"),
        ([0, 1, 3, 4, 6, 7, 8], "0,1,3,4,6-8"),
    ],
)
def test_indexes_are_written_as_ranges_and_read_again(numbers: list[int], text: str) -> None:
    assert policies.format_indexes(numbers) == text
    assert policies.parse_indexes(text, 100) == set(numbers)


def test_indexes_beyond_the_completions_do_not_count() -> None:
    assert policies.parse_indexes("1,3-9", 5) == {1, 3, 4}
    assert policies.first_pending_indexes(2, 5, {0, 2}) == [1, 3]
    assert policies.first_pending_indexes(9, 3, {0}) == [1, 2]


def _indexed(name: str, index: str | None) -> Obj:
    annotations = {} if index is None else {policies.INDEX: index}
    return {"metadata": {"name": name, "annotations": annotations}}


def test_duplicate_pods_of_an_index_are_deleted() -> None:
    pods = [_indexed("a", "0"), _indexed("b", "0"), _indexed("c", "7"), _indexed("d", None)]
    remove, keep = policies.split_duplicates(pods, 3)
    assert [pod["metadata"]["name"] for pod in remove] == ["b", "c", "d"]
    assert [pod["metadata"]["name"] for pod in keep] == ["a"]


def _failed_pod(code: int, **more: Any) -> Obj:
    terminated = {"terminated": {"exitCode": code, "finishedAt": "2026-01-01T00:00:30Z"}}
    statuses = [{"name": "c", "state": terminated}]
    metadata = {"name": "p", "namespace": "n", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {
        "metadata": metadata,
        "status": {"phase": "Failed", "containerStatuses": statuses, **more},
    }


def _rule(action: str, **on: Any) -> Obj:
    return {"rules": [{"action": action, **on}]}


@pytest.mark.parametrize(
    ("policy", "pod", "failure"),
    [
        (None, _failed_pod(1), policies.FailurePolicyMatch(True)),
        (
            _rule("Ignore", onExitCodes={"operator": "In", "values": [1]}),
            _failed_pod(1),
            policies.FailurePolicyMatch(False, "Ignore"),
        ),
        (
            _rule("Count", onExitCodes={"operator": "NotIn", "values": [2]}),
            _failed_pod(1),
            policies.FailurePolicyMatch(True, "Count"),
        ),
        (
            _rule("FailIndex", onExitCodes={"operator": "In", "values": [1], "containerName": "x"}),
            _failed_pod(1),
            policies.FailurePolicyMatch(True),
        ),
        (
            _rule("Ignore", onExitCodes={"operator": "NotIn", "values": [2]}),
            _failed_pod(0),
            policies.FailurePolicyMatch(True),
        ),
        (
            _rule("FailJob", onPodConditions=[{"type": "DisruptionTarget", "status": "True"}]),
            _failed_pod(1, conditions=[{"type": "DisruptionTarget", "status": "True"}]),
            policies.FailurePolicyMatch(
                True,
                "FailJob",
                "Pod n/p has condition DisruptionTarget matching FailJob rule at index 0",
            ),
        ),
    ],
)
def test_first_rule_that_matches_decides(
    policy: Obj | None, pod: Obj, failure: policies.FailurePolicyMatch
) -> None:
    assert policies.match_failure_policy(policy, pod) == failure


@pytest.mark.parametrize(
    ("pod", "seconds"),
    [
        (_failed_pod(1), 30),
        (
            {
                **_failed_pod(1),
                "status": {
                    "conditions": [
                        {
                            "type": "Ready",
                            "status": "False",
                            "lastTransitionTime": "2026-01-01T00:00:20Z",
                        }
                    ]
                },
            },
            20,
        ),
        (
            {
                "metadata": {
                    "creationTimestamp": "2026-01-01T00:00:00Z",
                    "deletionTimestamp": "2026-01-01T00:00:40Z",
                    "deletionGracePeriodSeconds": 30,
                }
            },
            10,
        ),
        ({"metadata": {"creationTimestamp": "2026-01-01T00:00:05Z"}}, 5),
    ],
)
def test_finish_time_of_a_pod(pod: Obj, seconds: float) -> None:
    assert policies.get_finish_time(pod) == parse_time("2026-01-01T00:00:00Z") + seconds


@pytest.mark.parametrize(
    ("rule", "succeeded", "message"),
    [
        ({"succeededIndexes": "0-1"}, {0}, ""),
        ({"succeededIndexes": "0-1"}, {0, 1}, "Matched rules at index 0"),
        ({"succeededIndexes": "0-3", "succeededCount": 2}, {1, 3}, "Matched rules at index 0"),
        ({"succeededCount": 2}, {5}, ""),
        ({"succeededCount": 2}, {5, 6}, "Matched rules at index 0"),
        ({"succeededIndexes": "0"}, set(), ""),
    ],
)
def test_success_policy_is_met(rule: Obj, succeeded: set[int], message: str) -> None:
    job = {"spec": {"completions": 10, "successPolicy": {"rules": [rule]}}}
    assert policies.match_success_policy(job, succeeded) == message


def test_job_without_ttl_is_kept() -> None:
    ended = {"type": "Failed", "status": "True", "lastTransitionTime": "2026-01-01T00:00:10Z"}
    start = parse_time("2026-01-01T00:00:00Z")
    assert seconds_until_expiry({"spec": {}, "status": {"conditions": [ended]}}, start) is None
    assert (
        seconds_until_expiry({"spec": {"ttlSecondsAfterFinished": 5}, "status": {}}, start) is None
    )
    job = {"spec": {"ttlSecondsAfterFinished": 5}, "status": {"conditions": [ended]}}
    assert seconds_until_expiry(job, start) == 15
