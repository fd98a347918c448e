from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.suite.config.options import SETTING_DEFINITIONS, TIMEOUTS, SettingDefinition
from pytest_kwait.suite.config.settings import (
    DEFAULT_SOURCE,
    PodSecurity,
    Reader,
    Settings,
    parse_pod_security,
    read_bool,
    read_choice,
    read_dns_label,
    read_duration,
    read_egress,
    read_heartbeat,
    read_images,
    read_limit,
    read_path,
    read_positive_duration,
    read_scale,
    read_taints,
    read_text,
    read_timeouts,
    reader_of,
)


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


def test_properties_return_the_defaults() -> None:
    settings = Settings()
    for name, definition in SETTING_DEFINITIONS.items():
        assert getattr(settings, name) == definition.default
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


@pytest.mark.parametrize("definition", SETTING_DEFINITIONS.values(), ids=lambda each: each.name)
def test_defaults_can_be_read_back(definition: SettingDefinition) -> None:
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


_DURATION = "use seconds (90), a timedelta, or a Go duration ('500ms', '90s', '1m30s')"


@pytest.mark.parametrize(
    ("read", "value", "expected"),
    [
        (read_duration, "1m30s", 90.0),
        (read_duration, 0, 0.0),
        (read_positive_duration, "250ms", 0.25),
        (read_heartbeat, "24h", 86_400.0),
        (read_choice("watch", "poll"), "poll", "poll"),
        (read_bool, "True", True),
        (read_bool, "false", False),
        (read_bool, False, False),
        (read_scale, "0.5", 0.5),
        (read_scale, 3, 3.0),
        (read_dns_label, "team-a", "team-a"),
        (read_path, "a/kubeconfig", Path("a/kubeconfig")),
        (read_text, " kind-e2e ", "kind-e2e"),
        (read_timeouts, "job=5m, pod_start = 30", {"job": 300.0, "pod_start": 30.0}),
        (read_timeouts, {"job": "5m"}, {"job": 300.0}),
        (read_timeouts, "", {}),
        (read_taints, " a, x.y/b_C ", ("a", "x.y/b_C")),
        (read_taints, " ", ()),
        (read_taints, ("a",), ("a",)),
        (read_limit, " 12 ", 12),
        (read_limit, "-1", -1),
        (read_limit, 0, 0),
    ],
)
def test_valid_values_are_parsed(read: Reader, value: Any, expected: Any) -> None:
    assert read(value, "x", "env KWAIT_X") == expected


@pytest.mark.parametrize(
    ("read", "value", "message"),
    [
        (read_duration, "5 min", f"x='5 min' (from env KWAIT_X) is not valid: {_DURATION}"),
        (
            read_positive_duration,
            "0",
            f"x='0' (from env KWAIT_X) is not valid: {_DURATION}, above zero",
        ),
        (
            read_heartbeat,
            "25h",
            f"x='25h' (from env KWAIT_X) is not valid: {_DURATION}, at most 24h0m0s",
        ),
        (
            read_timeouts,
            "job=3000000h",
            "x job='3000000h' (from env KWAIT_X) is not valid: "
            f"{_DURATION}, at most 2562047h47m16s",
        ),
        (
            read_choice("auto", "existing", "embedded"),
            "embeded",
            "x='embeded' (from env KWAIT_X) is not valid: did you mean embedded? "
            "use auto, existing or embedded",
        ),
        (
            read_choice("watch", "poll"),
            7,
            "x=7 (from env KWAIT_X) is not valid: use watch or poll",
        ),
        (read_bool, "yes", "x='yes' (from env KWAIT_X) is not valid: use true or false"),
        (
            read_scale,
            "0",
            "x='0' (from env KWAIT_X) is not valid: use a number above zero, for example 2 or 0.5",
        ),
        (
            read_scale,
            "nan",
            "x='nan' (from env KWAIT_X) is not valid: use a number above zero, "
            "for example 2 or 0.5",
        ),
        (
            read_dns_label,
            "Team_A",
            "x='Team_A' (from env KWAIT_X) is not valid: use up to 63 lower-case letters, digits "
            "and '-', with a letter or digit at both ends",
        ),
        (read_path, "", "x='' (from env KWAIT_X) is not valid: use the path of a file"),
        (
            read_path,
            "~absent-user/x",
            "x='~absent-user/x' (from env KWAIT_X) is not valid: there is no such user",
        ),
        (read_text, " ", "x=' ' (from env KWAIT_X) is not valid: use a text that is not empty"),
        (
            read_timeouts,
            "5m",
            "x='5m' (from env KWAIT_X) is not valid: use NAME=DURATION, for example job=5m",
        ),
        (
            read_timeouts,
            "job=soon",
            f"x job='soon' (from env KWAIT_X) is not valid: {_DURATION}",
        ),
        (
            read_timeouts,
            "jobs=5m",
            "timeout name='jobs' (from env KWAIT_X) is not valid: "
            "the nearest names in the table are job",
        ),
        (
            read_timeouts,
            5,
            'x=5 (from env KWAIT_X) is not valid: use a mapping, for example {"job": "5m"}',
        ),
        (
            read_taints,
            "a b",
            "x='a b' (from env KWAIT_X) is not valid: use keys of taints with commas between them, "
            "for example node-role.kubernetes.io/control-plane,dedicated",
        ),
        (
            read_images,
            ["shop/web"],
            "image='shop/web' (from env KWAIT_X) is not valid: use PATTERN=COMMAND, for example "
            "shop/web:*=python -m shop.web",
        ),
        (
            read_images,
            " ",
            "image=' ' (from env KWAIT_X) is not valid: use PATTERN=COMMAND, for example "
            "shop/web:*=python -m shop.web",
        ),
        *(
            (
                read_egress,
                value,
                f"egress={value[0]!r} (from env KWAIT_X) is not valid: use HOST:PORT with a DNS "
                "name, an IPv4 address or localhost, and a port from 1 to 65535, for example "
                "pypi.org:443",
            )
            for value in (["pypi.org"], [" "], ["*:443"], ["https://pypi.org"], ["[::1]:80"])
        ),
        (
            read_egress,
            "a.org:1\n\na.org:1",
            "egress='a.org:1' (from env KWAIT_X) is not valid: it is given twice; leave one out",
        ),
        (
            read_limit,
            True,
            "x=True (from env KWAIT_X) is not valid: use a whole number, 0 or more, or -1",
        ),
        (
            read_limit,
            "-2",
            "x='-2' (from env KWAIT_X) is not valid: use a whole number, 0 or more, or -1",
        ),
    ],
)
def test_invalid_values_are_refused_with_source_and_valid_values(
    read: Reader, value: Any, message: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        read(value, "x", "env KWAIT_X")
    assert str(caught.value) == message


def test_images_are_a_list_or_one_per_line() -> None:
    texts = ["shop/web:*=python -m 'shop web'", "db=./db -v"]
    for value in (texts, "\n" + "\n\n".join(texts) + "\n"):
        found = read_images(value, "image", "ini kwait_image")
        assert [(one.pattern, one.command) for one in found] == [
            ("shop/web:*", ("python", "-m", "shop web")),
            ("db", ("./db", "-v")),
        ]


def test_egress_is_a_list_or_one_per_line() -> None:
    for value in (["a.org:1", "b.org:2"], "\na.org:1\n\n b.org:2\n"):
        assert read_egress(value, "egress", "ini kwait_egress") == (("a.org", 1), ("b.org", 2))


def test_blank_egress_is_refused() -> None:
    with pytest.raises(
        InvalidArgument, match=r"^egress=' ' \(from env KWAIT_EGRESS\) is not valid"
    ):
        read_egress(" ", "egress", "env KWAIT_EGRESS")


@pytest.mark.parametrize("length", [63, 64])
def test_dns_label_ends_at_63_letters(length: int) -> None:
    if length == 63:
        assert read_dns_label("a" * length, "x", None) == "a" * length
    else:
        with pytest.raises(InvalidArgument):
            read_dns_label("a" * length, "x", None)


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("privileged", PodSecurity("privileged")),
        ("baseline:latest", PodSecurity("baseline", "latest")),
        ("restricted:v1.30", PodSecurity("restricted", "v1.30")),
    ],
)
def test_pod_security_level_with_version(text: str, level: PodSecurity) -> None:
    assert parse_pod_security(text, "pod_security") == level
    assert parse_pod_security(level, "pod_security") == level


@pytest.mark.parametrize(
    "value",
    ["", "strict", "Baseline", "baseline:", "baseline:1.30", "baseline:v1.030", ":latest", 3, None],
)
def test_invalid_levels_are_refused(value: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_pod_security(value, "pod_security", "ini kwait_pod_security")
    assert str(caught.value) == (
        f"pod_security={value!r} (from ini kwait_pod_security) is not valid: use privileged, "
        "baseline or restricted, and :VERSION behind it for the standard of one release, for "
        "example restricted:v1.30 or restricted:latest"
    )
