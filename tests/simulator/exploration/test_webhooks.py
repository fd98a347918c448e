from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING
from unittest import mock

import aiohttp
import pytest

from pytest_kwait.simulator.admission.webhooks import webhook_client
from pytest_kwait.simulator.admission.webhooks.webhook_client import WebhookReply
from pytest_kwait.simulator.cluster import SimulatedCluster
from pytest_kwait.simulator.exploration.exploration import Exploration
from tests.simulator.admission.fake_webhooks import configure
from tests.simulator.exploration.seeds import decide_always, explore, find_seed, hold_for
from tests.simulator.manual_clock import ManualClock

if TYPE_CHECKING:
    from pytest_kwait.simulator.admission.webhooks.webhook_client import WebhookCall

EVENT = ("webhook-delay", "webhook w.example.com create configmaps a 1")


def call_webhook(api: SimulatedCluster) -> WebhookCall:
    """Return the call of the webhook for a new config map; the call fails."""
    calls: list[WebhookCall] = []

    async def fetch(call: WebhookCall) -> WebhookReply:
        calls.append(call)
        return WebhookReply("u", failure="no")

    with mock.patch.object(webhook_client, "_fetch_reply", fetch):
        api.create("configmaps", {"metadata": {"name": "a"}}, "default")
    return calls[0]


@pytest.mark.parametrize(("timeout", "longest"), [(1, 0.5), (30, 15.0)])
def test_webhook_is_called_later_and_keeps_half_of_its_timeout(
    timeout: int, longest: float
) -> None:
    clock = ManualClock()
    api = SimulatedCluster(clock)
    api.bootstrap()
    configure(api, timeoutSeconds=timeout, failurePolicy="Ignore")
    seed = find_seed("harsh", [EVENT])
    exploration = Exploration(api.clock, seed, "harsh", ["webhook-delay"])
    # A size that no declaration has.
    decide_always(exploration, 60.0)
    explore(api, exploration)
    call = call_webhook(api)
    assert call.delay is not None
    held = hold_for(exploration, 0)

    async def wait() -> None:
        assert call.delay is not None
        waiting = asyncio.ensure_future(call.delay())
        await asyncio.sleep(0)  # noqa: TID251 - a turn of the loop, no time
        clock.advance(0)
        await waiting

    asyncio.run(wait())
    assert held == [longest]


def test_webhook_without_a_decision_is_called_at_once() -> None:
    api = SimulatedCluster(ManualClock())
    api.bootstrap()
    configure(api, failurePolicy="Ignore")
    assert call_webhook(api).delay is None
    seed = find_seed("harsh", [], [EVENT])
    explore(api, Exploration(api.clock, seed, "harsh"))
    api.delete("configmaps", "a", "default")
    explore(api, Exploration(api.clock, seed, "harsh", ["webhook-delay"]))
    assert call_webhook(api).delay is None


@pytest.mark.parametrize(("late", "rest"), [(4.0, 6.0), (11.0, 0.001)])
def test_late_call_has_the_rest_of_its_timeout(
    monkeypatch: pytest.MonkeyPatch, late: float, rest: float
) -> None:
    api = SimulatedCluster(ManualClock())
    api.bootstrap()
    configure(api, timeoutSeconds=10, failurePolicy="Ignore")
    call = replace(call_webhook(api), failure="")
    times = iter((100.0, 100.0 + late))
    timeouts: list[aiohttp.ClientTimeout] = []

    class Session:
        def __init__(self, *, timeout: aiohttp.ClientTimeout, **_: object) -> None:
            timeouts.append(timeout)
            raise OSError("no route")

    monkeypatch.setattr(aiohttp, "ClientSession", Session)

    async def fetch() -> WebhookReply:
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "time", lambda: next(times))
        try:
            return await webhook_client._fetch_reply(call)
        finally:
            monkeypatch.delattr(loop, "time")

    assert "no route" in asyncio.run(fetch()).failure
    assert [timeout.total for timeout in timeouts] == [rest]
