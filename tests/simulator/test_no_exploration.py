"""The hooks of a cluster that is not explored: they hold, delay and refuse nothing."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

from pytest_kwait.simulator.no_exploration import NoExploration, UnexploredEvents

ROOT = Path(__file__).parents[2]

PROGRAM = """
import sys
from tests.simulator.cluster import Cluster, pod_spec
cluster = Cluster()
cluster.create("pods", "p", pod_spec("sleep", "600"))
cluster.run(5)
print(sorted(name for name in sys.modules if ".simulator.exploration" in name))
"""
POD = {"metadata": {"name": "p", "namespace": "t"}}


def never() -> None:
    raise AssertionError("nothing was held")


def test_kubelets_hold_nothing() -> None:
    hooks = NoExploration()
    assert not hooks.hold_renewal("node-1", never)
    assert not hooks.hold_sync(POD, never)
    assert hooks.hold_status(POD, never) is None
    assert [*hooks.delay_sandbox(POD, never)] == []
    assert [*hooks.delay_pull("app:1", POD, never)] == []


def test_requests_are_neither_refused_nor_held() -> None:
    hooks, request, target = NoExploration(), mock.Mock(), mock.Mock()

    async def update() -> None:
        await hooks.hold_update(mock.Mock(), "pods", request, target, "7")
        await hooks.hold_patch(mock.Mock(), "pods", request, target, b"{}")

    hooks.refuse_request(request, target, "status")
    asyncio.run(asyncio.wait_for(update(), 60))
    assert not hooks.expires_list(request, "pods", None)
    assert hooks.delay_webhook("w", 1.0, "create pods", "p", "t") is None


def test_events_are_written_and_counted() -> None:
    hooks, written = NoExploration(), list[str]()
    events = UnexploredEvents()
    events.record(POD, "Done", written.append)
    assert written == [""]
    assert not events.is_late
    assert not hooks.drops_repetition("event tester Done p 2")
    assert not hooks.recounts_repetition("event tester Done p 2")


def test_there_is_nothing_to_report() -> None:
    hooks = NoExploration()
    hooks.end()
    assert (hooks.is_active, hooks.report()) == (False, None)


def test_a_cluster_without_an_exploration_loads_none() -> None:
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert found.stdout == "[]\n"
