"""Sample reports: a run with a few failures, and very long runs."""

from __future__ import annotations

import random
from typing import Any

from pytest_kwait.suite.report.records import RunRecord, TestRecord, VerdictChange, WaitRecord
from pytest_kwait.suite.report.report import VERSION, RunReport

__all__ = ["night", "static_table"]

_MIDNIGHT = 1_780_000_000.0
_KINDS = (
    ("job", "sleepers", "have 3 pods Running", 4.0),
    ("deployment", "web", "be complete", 9.0),
    ("pod", "worker-0", "be ready", 2.0),
    ("service", "api", "have 2 endpoints", 1.5),
    ("persistentvolumeclaim", "data", "be Bound", 0.6),
)
_TEXT = """job {ns}/sleepers can no longer have 3 pods Running: pod sleepers-x7k2p cannot pull its \
image registry.example/sleeper:latst: manifest unknown
  awaited   job {ns}/sleepers to have 3 pods Running
  limit     5m0s, ended after 6.3s (watch mode)
  seen      1 Pending, 2 Running
  pods
    sleepers-x7k2p  Pending on node-1
      main: waiting ErrImagePull: manifest unknown
"""


def night(waits: int = 240, shards: int = 2, workers: int = 2, seed: int = 7) -> RunReport:
    """Return a report of shards that ran beside each other, in which a few tests failed.

    Args:
        waits: how many waits in all.
        shards: how many shards.
        workers: how many workers each.
        seed: what the chances are drawn by.
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
    kind, name, goal, usual = _KINDS[chance.randrange(5)]
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
            VerdictChange(0.004, f"{name} does not exist yet"),
            VerdictChange(round(min(seconds / 2, 1.0), 3), "1 of 3 pods is Running"),
            VerdictChange(seconds, "3 of 3 pods are Running"),
        ],
    )
    if number % 97 == 41:
        return _fail_early(record, namespace)
    if number % 211 == 60:
        record.outcome, record.seconds = "timed out", round(28 + seconds, 3)
        record.headline = f"{record.subject} did not {goal} within 30s: 1 of 3 pods is Running"
        record.text = record.headline
        record.evidence = {"limit_seconds": 30.0, "pods": [], "events": [], "logs": []}
        record.changes.pop()
    return record


def _fail_early(record: WaitRecord, namespace: str) -> WaitRecord:
    container: dict[str, Any] = {
        "name": "main",
        "init": False,
        "state": "waiting",
        "reason": "ErrImagePull",
        "message": "manifest unknown",
        "exit_code": None,
        "restarts": 0,
        "ready": False,
        "failing": True,
    }
    record.outcome, record.seconds = "failed early", 6.3
    record.subject, record.goal = f"job {namespace}/sleepers", "have 3 pods Running"
    record.text = _TEXT.format(ns=namespace)
    record.headline = record.text.partition("\n")[0]
    record.changes[2] = VerdictChange(1.3, "pod sleepers-x7k2p: ErrImagePull: manifest unknown")
    record.evidence = {
        "reason": "pod sleepers-x7k2p cannot pull its image",
        "limit_seconds": 300.0,
        "seen": "1 Pending, 2 Running",
        "pods": [
            {
                "name": "sleepers-x7k2p",
                "phase": "Pending",
                "node": "node-1",
                "note": "",
                "deleting": False,
                "ready": False,
                "containers": [container],
            }
        ],
        "events": [
            {
                "subject": "pod/sleepers-x7k2p",
                "others": 0,
                "reason": "Failed",
                "message": "Failed to pull image <registry.example/sleeper:latst>",
                "count": 3,
            }
        ],
        "logs": [
            {
                "pod": "sleepers-b2c9d",
                "container": "main",
                "previous": True,
                "lines": ["connecting to db …", "</script><img src=x onerror=alert(1)>"],
            }
        ],
    }
    return record


def static_table(report: RunReport) -> str:
    """Return the plainest page there is of the same waits: a table with a row for each."""
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
