"""Sample reports: a run with a few failures, and very long runs."""

from __future__ import annotations

import random

from pytest_kwait.engine.condition import ObjectReference
from pytest_kwait.engine.failure.evidence import EventGroup, Evidence, LogTail, PodReport
from pytest_kwait.engine.failure.wait_report import Timeline, WaitReport
from pytest_kwait.engine.pod_fields import ContainerReport
from pytest_kwait.suite.report.records import (
    RecordedVerdict,
    RunRecord,
    TestRecord,
    WaitRecord,
    record_explanation,
)
from pytest_kwait.suite.report.run_report import VERSION, RunReport

_MIDNIGHT = 1_780_000_000.0
_KINDS = (
    ("job", "sleepers", "have 3 pods Running", 4.0, "1 of 3 pods Running: 1 Running, 2 Pending"),
    ("deployment", "web", "become complete", 9.0, "1 of 2 updated, 3 there"),
    ("pod", "worker-0", "become ready", 2.0, "Pending"),
    ("service", "api", "have 2 endpoints", 1.5, "1 of 2 endpoints: 2 Running"),
    ("persistentvolumeclaim", "data", "get to phase Bound", 0.6, "Pending"),
)
_POD = "sleepers-x7k2p"
_IMAGE = "registry.example/sleeper:latst"
_PULL_ERROR = (
    f'failed to pull and unpack image "{_IMAGE}": failed to resolve reference "{_IMAGE}": '
    f"{_IMAGE}: not found"
)


_STEPS = (("create the shop", "create the shop > scale it"), ("create the shop", "check it"))


def night(
    waits: int = 240, shards: int = 2, workers: int = 2, seed: int = 7, *, steps: bool = False
) -> RunReport:
    """Return a report of shards that ran beside each other, in which a few tests failed.

    Args:
        waits: the number of waits in all.
        shards: the number of shards.
        workers: the number of workers per shard.
        seed: the seed of the random choices.
        steps: whether the waits are in steps of their tests.
    """
    chance = random.Random(seed)
    runs = [
        RunRecord(
            id=f"nightly-{shard}-0a1b",
            name=f"nightly-{shard}",
            started=_MIDNIGHT + shard * 3.5,
            ended=_MIDNIGHT + shard * 3.5 + 1.0,
            shard=f"{shard}/{shards}" if shards > 1 else "",
            cluster="existing",
            exit_status=1,
            tests={},
        )
        for shard in range(1, shards + 1)
    ]
    clocks = {(run.id, worker): run.started + 1.2 for run in runs for worker in range(workers)}
    records, tests = [], []
    for number in range(0, waits, 2):
        run = runs[number // 2 % shards]
        worker = number // 2 // shards % workers
        test = f"tests/e2e/test_{_KINDS[number % 5][0]}s.py::test_{_KINDS[number % 5][1]}[{number}]"
        outcome, start = "passed", clocks[run.id, worker]
        for each in (number, number + 1):
            record = _wait(chance, each, run, f"gw{worker}", test, clocks[run.id, worker])
            if steps:
                record.step = _STEPS[number // 2 % 2][each - number]
            records.append(record)
            clocks[run.id, worker] = record.started + record.seconds + chance.uniform(0.05, 0.8)
            if record.outcome not in ("met", "interrupted"):
                outcome = "failed"
                break
        run.tests[outcome] = run.tests.get(outcome, 0) + 1
        end = clocks[run.id, worker]
        run.ended = max(run.ended or 0.0, end)
        tests.append(
            TestRecord(
                f"{run.id}.{number}",
                run.id,
                test,
                outcome,
                end,
                round(end - start, 3),
                run.shard,
                f"gw{worker}",
                f"E   {records[-1].headline}" if outcome == "failed" else "",
            )
        )
    return RunReport(VERSION, runs, records, tests)


def _wait(
    chance: random.Random, number: int, run: RunRecord, worker: str, test: str, started: float
) -> WaitRecord:
    kind, name, goal, usual, pending = _KINDS[chance.randrange(5)]
    namespace = f"nightly-{worker}-{name}-{number:05d}"
    seconds = round(usual * chance.lognormvariate(0, 0.5), 3)
    retries = chance.choice((1, 2, 5)) if chance.random() < 0.03 else 0
    record = WaitRecord(
        id=f"{run.id}.{worker}.{number}",
        run=run.id,
        subject=f"{kind} {namespace}/{name}",
        goal=goal,
        started=round(started, 3),
        seconds=seconds,
        outcome="met",
        shard=run.shard,
        worker=worker,
        test=test,
        retries=retries,
        trouble="GET /api/v1/pods: 503 ServiceUnavailable: etcdserver: leader changed"
        if retries
        else "",
        changes=[
            RecordedVerdict(0.004, "not found yet"),
            RecordedVerdict(round(min(seconds / 2, 1.0), 3), pending),
            RecordedVerdict(seconds, "met"),
        ],
    )
    if number % 97 == 41:
        record.subject, record.goal = f"job {namespace}/sleepers", "have 3 pods Running"
        reason = f"pod {_POD}: ErrImagePull: {_PULL_ERROR}"
        record.changes = [
            RecordedVerdict(0.004, "0 of 3 pods Running: 3 Pending"),
            RecordedVerdict(1.302, f"final if it holds for 5s: {reason}"),
            RecordedVerdict(6.304, reason),
        ]
        _end_without_success(record, 300.0, _find_failed_pull(namespace), failed=True)
    elif number % 211 == 60:
        record.changes[2:] = []
        _end_without_success(record, 30.0, Evidence(namespace), failed=False)
    return record


def _end_without_success(
    record: WaitRecord, limit: float, findings: Evidence, *, failed: bool
) -> None:
    """Complete the record of a wait that failed early or timed out, as a run does."""
    timeline = Timeline()
    for change in record.changes:
        timeline.record(change.at, change.text)
    report = WaitReport(
        subject=record.subject,
        goal=record.goal,
        failed=failed,
        reason=timeline.last,
        limit=limit,
        elapsed=record.changes[-1].at if failed else limit,
        mode="watch",
        seen="2 Running, 1 Pending (ErrImagePull)" if failed else "",
        timeline=timeline,
        findings=findings,
    )
    explanation = record_explanation(record.id, report)
    record.outcome = "failed early" if failed else "timed out"
    record.seconds = record.changes[-1].at if failed else limit
    record.headline, record.text = explanation.headline, explanation.text
    record.evidence = explanation.evidence


def _find_failed_pull(namespace: str) -> Evidence:
    container = ContainerReport(
        name="main",
        init=False,
        state="waiting",
        reason="ErrImagePull",
        message=_PULL_ERROR,
        exit_code=None,
        restarts=0,
        ready=False,
        failing=True,
    )
    pod = PodReport(
        name=_POD,
        uid="4b1c",
        phase="Pending",
        node="node-1",
        note="",
        deleting=False,
        ready=False,
        containers=(container,),
    )
    job = ObjectReference("Job", "sleepers", "9d0e", "jobs.batch")
    pull = EventGroup(
        f"pod/{_POD}", 0, "Failed", f'Failed to pull image "{_IMAGE}": {_PULL_ERROR}', 3
    )
    # Output of a container that must not become part of a page.
    lines = ("connecting to db …", "</script><img src=x onerror=alert(1)>")
    return Evidence(
        namespace=namespace,
        objects=(job,),
        pods=(pod,),
        events=(pull,),
        logs=(LogTail("sleepers-b2c9d", "main", previous=True, lines=lines),),
        kubectl=("--context", "staging"),
    )


def static_table(report: RunReport) -> str:
    """Return a plain page of the same waits: a table with a row for each."""
    from html import escape

    rows = "".join(
        "<tr>"
        + "".join(
            f"<td>{escape(str(cell))}</td>"
            for cell in (
                wait.outcome,
                wait.seconds,
                f"{wait.subject} to {wait.goal}",
                wait.test,
                f"{wait.shard} {wait.worker}",
                wait.started,
            )
        )
        + "</tr>"
        for wait in report.waits
    )
    return f"<!doctype html><meta charset=utf-8><title>waits</title><table>{rows}</table>"
