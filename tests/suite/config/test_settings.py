from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kwait.engine.options import TIMEOUTS as DEFAULTS
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.registry import WAITS
from pytest_kwait.suite.bound_wait import WaitDefaults
from pytest_kwait.suite.config.options import SETTING_DEFINITIONS, TIMEOUTS, SettingDefinition
from pytest_kwait.suite.config.settings import (
    DEFAULT_SOURCE,
    Settings,
    read_suite_timeouts,
    reader_of,
)
from tests.rows import check_rows


def layer(settings: Settings, place: str, timeouts: Any = None, **given: Any) -> Settings:
    return settings.merged(given, lambda definition: f"{place} {definition.name}", timeouts)


def test_nearest_layer_wins_and_keeps_its_source() -> None:
    settings = layer(Settings(), "ini", poll="1s", mode="poll")
    settings = layer(settings, "env", poll="3s")
    assert (settings.poll, settings.source("poll")) == (3.0, "env poll")
    assert (settings.mode, settings.source("mode")) == ("poll", "ini mode")
    assert (settings.keep, settings.source("keep")) == ("never", DEFAULT_SOURCE)


def test_none_is_unset() -> None:
    settings = layer(layer(Settings(), "ini", grace="9s"), "marker", grace=None)
    assert (settings.grace, settings.source("grace")) == (9.0, "ini grace")


def test_timeouts_are_merged_by_name() -> None:
    settings = layer(Settings(), "ini", "job=5m,deployment=1m")
    settings = layer(settings, "flag", ["job=7m", "pod_start=10s"])
    table = settings.timeouts()
    assert (table["job"], table["deployment"], table["pod_start"]) == (420.0, 60.0, 10.0)
    assert table["pod_delete"] == 300.0


def test_scale_multiplies_limits_named_or_not_but_no_pause() -> None:
    settings = layer(Settings(), "flag", "job=5m", timeout_scale="2", poll="3s")
    table = settings.timeouts()
    assert (table["job"], table["pod_start"], table["poll"]) == (600.0, 600.0, 3.0)


def test_poll_option_precedes_the_timeout_table() -> None:
    named = layer(Settings(), "env", "poll=5s")
    assert (named.poll, named.timeouts()["poll"]) == (5.0, 5.0)
    assert layer(named, "ini", poll="1s").poll == 1.0


def test_changed_settings_are_listed_in_help_order() -> None:
    settings = layer(
        Settings(), "flag", "job=5m", mode="poll", cluster="embedded", fail_fast="false"
    )
    assert [(name, setting.given, setting.source) for name, setting in settings.changed()] == [
        ("cluster", "embedded", "flag cluster"),
        ("mode", "poll", "flag mode"),
        ("fail_fast", "false", "flag fail_fast"),
        ("timeout job", "5m0s", "flag timeout"),
    ]


def test_attributes_return_the_defaults() -> None:
    settings = Settings()
    for name, definition in SETTING_DEFINITIONS.items():
        assert getattr(settings, name) == definition.default
        assert getattr(Settings, name) is definition
    assert list(settings.changed()) == []


@pytest.mark.parametrize(
    ("given", "recorded"),
    [
        ({}, "never"),
        ({"artifacts": "art"}, "failed"),
        ({"artifacts": "art", "record": "always"}, "always"),
        ({"artifacts": "art", "record": "never"}, "never"),
        ({"record": "always"}, "never"),
        ({"artifacts": "art", "record": "always", "cluster": "existing"}, "always"),
        ({"artifacts": "art", "cluster": "existing"}, "never"),
        ({"artifacts": "art", "context": "staging"}, "never"),
    ],
)
def test_failed_tests_are_recorded_on_an_embedded_cluster_and_elsewhere_if_asked(
    given: dict[str, str], recorded: str
) -> None:
    assert Settings().merged(given, lambda _: "env").recorded == recorded


def test_option_environment_and_ini_names_are_derived() -> None:
    definition = SETTING_DEFINITIONS["namespace_scope"]
    assert (definition.flag, definition.env, definition.ini) == (
        "--kwait-namespace-scope",
        "KWAIT_NAMESPACE_SCOPE",
        "kwait_namespace_scope",
    )
    assert (TIMEOUTS.flag, TIMEOUTS.env, TIMEOUTS.ini) == (
        "--kwait-timeout",
        "KWAIT_TIMEOUT",
        "kwait_timeout",
    )


def test_defaults_can_be_read_back() -> None:
    check_rows(SETTING_DEFINITIONS.values(), _check_default, name=lambda each: each.name)


def _check_default(definition: SettingDefinition[Any]) -> None:
    if definition.default is not None:
        read = reader_of(definition)
        assert read(definition.default, definition.name, None) == definition.default


def test_unknown_setting_error_suggests_similar_names() -> None:
    with pytest.raises(InvalidArgument) as caught:
        Settings().setting("pol")
    assert str(caught.value) == (
        "setting='pol' is not valid: did you mean poll? the settings are "
        f"{', '.join(SETTING_DEFINITIONS)}"
    )
    with pytest.raises(InvalidArgument, match="did you mean grace"):
        layer(Settings(), "flag", grce="2s")


_SOURCES = ("ini", "env", "flag", "marker")
_LIMITS = st.one_of(st.none(), st.integers(1, 900))


@given(
    suite=_LIMITS,
    named=st.tuples(*[_LIMITS] * len(_SOURCES)),
    every=st.tuples(*[_LIMITS] * len(_SOURCES)),
    scale=st.sampled_from([1, 2, 5]),
)
def test_a_limit_is_of_the_nearest_source_and_last_of_the_suites_table(
    suite: int | None, named: tuple[int | None, ...], every: tuple[int | None, ...], scale: int
) -> None:
    settings = layer(Settings(), "flag", timeout_scale=str(scale))
    for source, limit, whole in zip(_SOURCES, named, every, strict=True):
        timeouts = None if limit is None else {"job": limit}
        settings = layer(settings, source, timeouts, timeout=whole)
    table = {} if suite is None else {"job": suite}
    settings = settings.with_suite_timeouts(
        read_suite_timeouts(table, settings.unscaled_timeouts())
    )
    expected = (suite or DEFAULTS["job"].seconds) * scale
    for limit, whole in zip(named, every, strict=True):
        # A timeout by name wins over the `timeout` of the same source.
        if limit is not None:
            expected = limit * scale
        elif whole is not None:
            expected = whole
    bound = WaitDefaults(Mock(), "n", settings, settings.timeouts())
    wait = WAITS["wait_for_job_complete"]
    assert bound.options(wait, {})["timeout"] == expected
    assert bound.options(wait, {"timeout": 4})["timeout"] == 4
    function = settings.wait_options("job", "poll").get("timeout", DEFAULTS["job"].seconds)
    assert function == expected
