from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pytest_kwait.apimachinery.validation import check_name, check_namespace
from pytest_kwait.engine.options import (
    Target,
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
    settings = WaitSettings(1.0, grace=grace, time_scale=0.1)

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
            "a wait takes timeout, poll, mode, fail_fast, grace, stable_for",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(options: Any, text: str) -> None:
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
