from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pytest_kwait.apimachinery.times import MAX_SECONDS
from pytest_kwait.apimachinery.validation import check_name, check_namespace
from pytest_kwait.engine.options import (
    TIMEOUTS,
    Target,
    Timeouts,
    WaitSettings,
    check_count,
    parse_target,
    resolve_options,
)
from pytest_kwait.errors import InvalidArgument

FORMS = "use seconds (90), a timedelta, or a Go duration ('500ms', '90s', '1m30s')"


def test_nothing_given_is_the_table_and_the_defaults() -> None:
    assert resolve_options({}, timeout="job") == WaitSettings(900.0, 2.0, "watch", True, None, 0.0)


def test_none_is_not_given() -> None:
    options: Any = dict.fromkeys(("timeout", "poll", "mode", "fail_fast", "grace", "stable_for"))

    assert resolve_options(options, timeout="pod_start") == WaitSettings(300.0)


def test_durations_in_every_form() -> None:
    settings = resolve_options(
        {
            "timeout": "1m30s",
            "poll": 0.5,
            "mode": "poll",
            "fail_fast": False,
            "grace": timedelta(seconds=3),
            "stable_for": 0,
        },
        timeout="job",
    )

    assert settings == WaitSettings(90.0, 0.5, "poll", False, 3.0, 0.0)


@pytest.mark.parametrize(("grace", "short"), [(45.0, 5.0), (3.0, 3.0), (0.0, 0.0)])
def test_short_grace_is_never_longer_than_the_long_one(grace: float, short: float) -> None:
    assert WaitSettings(1.0, grace=grace).short_grace == short


@pytest.mark.parametrize(
    ("grace", "long", "short"), [(None, 4.5, 0.5), (20.0, 20.0, 0.5), (0.2, 0.2, 0.2)]
)
def test_default_graces_shrink_with_the_time_of_the_cluster(
    grace: float | None, long: float, short: float
) -> None:
    settings = WaitSettings(1.0, grace=grace, time_scale=lambda: 0.1)

    assert (settings.long_grace, settings.short_grace) == (long, short)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"timeout": 0}, f"timeout=0 is not valid: {FORMS}, above zero"),
        ({"timeout": "soon"}, f"timeout='soon' is not valid: {FORMS}"),
        ({"poll": "0s"}, f"poll='0s' is not valid: {FORMS}, above zero"),
        ({"poll": -1}, f"poll=-1 is not valid: {FORMS}, above zero"),
        ({"grace": -1}, f"grace=-1 is not valid: {FORMS}, not below zero"),
        ({"stable_for": True}, f"stable_for=True is not valid: {FORMS}"),
        ({"mode": "look"}, "mode='look' is not valid: use 'watch' or 'poll'"),
        ({"fail_fast": 1}, "fail_fast=1 is not valid: use True or False"),
        (
            {"timout": 3},
            "wait option='timout' is not valid: "
            "a wait takes timeout, poll, mode, fail_fast, grace, stable_for, follow_name, stop; "
            "methods and fixtures also take namespace and as_model",
        ),
    ],
)
def test_invalid_options_are_refused(options: Any, text: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        resolve_options(options, timeout="job")

    assert str(caught.value) == text


@pytest.mark.parametrize("value", [-1, 1.5, "3", None, True])
def test_a_count_is_a_whole_number(value: object) -> None:
    with pytest.raises(InvalidArgument) as caught:
        check_count("expected_count", value)

    assert str(caught.value) == (
        f"expected_count={value!r} is not valid: use a whole number, 0 or more"
    )


@pytest.mark.parametrize("value", ["", "UP", "a.b", "-a", "a" * 64, None])
def test_a_namespace_is_a_dns_label(value: object) -> None:
    with pytest.raises(InvalidArgument) as caught:
        check_namespace(value)

    assert str(caught.value) == (
        f"namespace={value!r} is not valid: use a DNS label: up to 63 lower-case letters, digits "
        "and '-', with a letter or digit at both ends"
    )


@pytest.mark.parametrize("value", ["", "UP", "a..b", "a/b", "a_b", ".a", "a" * 254, 3])
def test_a_name_is_a_dns_name(value: object) -> None:
    with pytest.raises(InvalidArgument) as caught:
        check_name("job", value)

    assert str(caught.value) == (
        f"job={value!r} is not valid: use a DNS name: up to 253 lower-case letters, digits, '-' "
        "and '.', with a letter or digit at both ends of each part"
    )


def test_good_ones_come_back() -> None:
    assert check_count("expected_count", 0) == 0
    assert check_namespace("ci-1") == "ci-1"
    assert check_name("job", "pi.v1") == "pi.v1"


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("deployment/web", Target("deployment", "web")),
        ("pods", Target("pods", "")),
        ("widgets.v1.example.com/w", Target("widgets.v1.example.com", "w")),
    ],
)
def test_target(text: str, target: Target) -> None:
    assert parse_target("target", text) == target


@pytest.mark.parametrize("value", ["", "/web", "pods/", "a/b/c", "pods/a b", None, 3])
def test_no_target(value: object) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_target("target", value)

    assert str(caught.value) == (
        f"target={value!r} is not valid: use 'kind/name' or 'kind', for example 'deployment/web'"
    )


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


def test_scaled_limits_are_at_most_the_longest_duration() -> None:
    timeouts = Timeouts().scaled(1e308)

    assert timeouts.job == timeouts.crd == MAX_SECONDS
    assert timeouts.poll == 2.0


def test_unknown_name_lists_similar_ones() -> None:
    with pytest.raises(InvalidArgument) as caught:
        Timeouts().merged({"pod-strat": 3.0}, source="ini kwait_timeout")

    assert str(caught.value) == (
        "timeout name='pod-strat' (from ini kwait_timeout) is not valid: "
        "the nearest names in the table are pod_start, pods_list, poll_short"
    )


def test_unknown_attribute_lists_similar_names() -> None:
    with pytest.raises(AttributeError) as caught:
        _ = Timeouts().jobs

    assert str(caught.value) == (
        "the timeout table has no 'jobs'; the nearest names in the table are job"
    )


def test_unknown_name_without_similar_ones_lists_all() -> None:
    with pytest.raises(InvalidArgument, match="the table has poll, pod_start, pod_delete, "):
        Timeouts().entry("zzzzzz")
