"""The processor that the containers of a cluster share."""

from __future__ import annotations

import gc
import weakref

import pytest

from pytest_kwait.simulator.kubelet.processor import processor_of
from tests.simulator.kubelet.container_room import Room
from tests.simulator.manual_clock import ManualClock


def test_a_cluster_has_one_processor() -> None:
    one, other = ManualClock(), ManualClock()
    assert processor_of(one) is processor_of(one)
    assert processor_of(one) is not processor_of(other)


def test_a_cluster_that_nobody_has_any_more_goes_with_its_containers() -> None:
    room = Room("sh", "-c", "while :; do :; done")
    room.clock.advance(0.1)
    gone = weakref.ref(room.clock)
    del room
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    "script", ["exit 4", "cat /no | grep port || exit 4", "x=$(true); (exit 4)"]
)
def test_what_ends_at_once_was_never_seen_at_work(script: str) -> None:
    room = Room("sh", "-c", script)
    assert (room.container.running, room.container.exit_code) == (False, 4)
