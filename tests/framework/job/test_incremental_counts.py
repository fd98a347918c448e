"""Incremental counts equal a recount, over any history of events."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kwait.engine.condition import Failed, Met, Pending
from pytest_kwait.framework.job.wait import wait_for_job_pods_running, wait_for_job_pods_succeeded
from pytest_kwait.framework.registry import condition_of
from tests.framework.job.rows import enter_job
from tests.objects import created_job, job_pod

LOOKS = {
    "new": lambda name: job_pod(name, "Pending"),
    "running": lambda name: job_pod(name),
    "stuck": lambda name: job_pod(name, "Pending", waiting=("ErrImagePull", "manifest unknown")),
    "late": lambda name: job_pod(name, "Pending", waiting=("ErrImagePull", "i/o timeout")),
    "done": lambda name: job_pod(name, "Succeeded"),
    "failed": lambda name: job_pod(name, "Failed"),
    "going": lambda name: job_pod(name, metadata={"deletionTimestamp": "now"}),
    "gone": None,
}

HISTORIES = st.lists(st.tuples(st.sampled_from("abcde"), st.sampled_from(sorted(LOOKS))))


def kind(verdict: Met | Pending | Failed) -> Any:
    """Return a verdict without what depends on the order of events."""
    if isinstance(verdict, Failed):
        return (Failed, verdict.grace)
    return type(verdict)


@settings(deadline=None, derandomize=True)
@given(
    HISTORIES,
    st.integers(0, 5),
    st.sampled_from(
        [condition_of(wait_for_job_pods_running), condition_of(wait_for_job_pods_succeeded)]
    ),
)
def test_history_does_not_matter(
    history: list[tuple[str, str]], count: int, condition: Any
) -> None:
    along, anew = condition("ci-1", "sleepers", count), condition("ci-1", "sleepers", count)
    enter_job(along, created_job(spec={"parallelism": 5, "completions": 5}), [])
    book = along.sources()[1].sink
    last: dict[str, str] = {}

    for name, look in history:
        last[name] = look
        make = LOOKS[look]
        if make is None:
            book.drop(f"uid-{name}")
        else:
            obj = make(name)
            obj["metadata"]["uid"] = f"uid-{name}"
            book.put(obj, msgspec.json.encode(obj), 0.0)

    pods = [make(name) for name, look in last.items() if (make := LOOKS[look]) is not None]
    enter_job(anew, created_job(spec={"parallelism": 5, "completions": 5}), pods)
    assert kind(along.verdict()) == kind(anew.verdict())
    assert sorted(along.summarize()) == sorted(anew.summarize())
    if isinstance(along.verdict(), Met):
        assert along.result() == anew.result()
