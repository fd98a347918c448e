"""A network that fails a leader, with real sockets: it stops leading within its renew deadline."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.clock import SYSTEM_CLOCK
from pytest_kwait.leaderelection import LeaderElector, LeaseLock
from tests.client.scripted_server import ScriptedServer, trickle_body

if TYPE_CHECKING:
    from tests.client.scripted_server import Exchange, Handler


def missing(exchange: Exchange) -> None:
    exchange.answer({"kind": "Status", "reason": "NotFound", "code": 404}, status=404)


def stored(exchange: Exchange) -> None:
    body = exchange.json
    body["metadata"]["resourceVersion"] = "1"
    exchange.answer(body, status=201)


def half_open(exchange: Exchange) -> None:
    exchange.hold()


def trickling_headers(exchange: Exchange) -> None:
    exchange.trickle(b"HTTP/1.1 200 OK\r\nX-Wait: " + b"a" * 60_000)


def reset(exchange: Exchange) -> None:
    exchange.close()


def busy(exchange: Exchange) -> None:
    exchange.answer({"kind": "Status", "code": 429}, status=429, headers={"Retry-After": "600"})


@pytest.mark.parametrize("trouble", [half_open, trickling_headers, trickle_body, reset, busy])
def test_it_always_ends_in_stopped(trouble: Handler) -> None:
    stopped: list[float] = []
    with ScriptedServer(missing, stored, stored, trouble) as server:
        elector = LeaderElector(
            LeaseLock(server.client(), "ns", "boss", "a"),
            lease_duration=0.6,
            renew_deadline=0.4,
            retry_period=0.05,
            on_started_leading=lambda ctx: None,
            on_stopped_leading=lambda: stopped.append(SYSTEM_CLOCK.monotonic()),
        )
        began = SYSTEM_CLOCK.monotonic()
        assert elector.run(threading.Event()) is False
    # What trickles in would take ten minutes.
    assert stopped[0] - began >= 0.4
    assert not elector.is_leader
