from __future__ import annotations

import pytest

from pytest_kwait.engine.timeouts import TIMEOUTS, Timeouts
from pytest_kwait.errors import InvalidArgument


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        ("poll", 2),
        ("pod_start", 300),
        ("pod_delete", 300),
        ("claim_provision", 300),
        ("claim_bound", 180),
        ("pv_bound", 180),
        ("pv_create", 180),
        ("pv_delete", 300),
        ("system_pods_startup", 600),
        ("node_schedulable", 1800),
        ("system_daemonset_startup", 300),
        ("node_not_ready", 180),
        ("job", 900),
        ("deployment", 300),
        ("stateful_set", 600),
        ("pod_scheduled_before", 320),
    ],
)
def test_defaults_are_upstreams(name: str, seconds: float) -> None:
    assert TIMEOUTS[name].seconds == seconds
    assert TIMEOUTS[name].source


def test_names_are_items_and_attributes() -> None:
    timeouts = Timeouts()

    assert timeouts["job"] == timeouts.job == 900.0
    assert set(timeouts) == set(TIMEOUTS)
    assert len(timeouts) == len(TIMEOUTS)
    assert repr(timeouts).startswith("Timeouts(poll=2, pod_start=300, ")


def test_merged_values_carry_their_source() -> None:
    timeouts = Timeouts().merged({"job": 30.0}, source="env KWAIT_TIMEOUT")

    assert timeouts.job == 30.0
    assert timeouts.entry("job").source == "env KWAIT_TIMEOUT"
    assert timeouts.entry("poll").source == "timeouts.go TimeoutContext.Poll"
    assert TIMEOUTS["job"].seconds == 900.0


def test_scale_changes_limits_and_no_pauses() -> None:
    timeouts = Timeouts().scaled(2)

    assert timeouts.job == 1800.0
    assert timeouts.poll == 2.0
    assert timeouts.serving_poll == 0.1


def test_an_unknown_name_is_told_its_neighbours() -> None:
    with pytest.raises(InvalidArgument) as caught:
        Timeouts().merged({"pod-strat": 3.0}, source="ini kwait_timeout")

    assert str(caught.value) == (
        "timeout name='pod-strat' (from ini kwait_timeout) is not valid: "
        "the nearest names in the table are pod_start, pods_list, poll_short"
    )


def test_an_unknown_attribute_is_told_its_neighbours() -> None:
    with pytest.raises(AttributeError) as caught:
        _ = Timeouts().jobs

    assert str(caught.value) == (
        "the timeout table has no 'jobs'; the nearest names in the table are job"
    )


def test_a_name_without_neighbours_is_told_all() -> None:
    with pytest.raises(InvalidArgument, match="the table has poll, pod_start, pod_delete, "):
        Timeouts().entry("zzzzzz")
