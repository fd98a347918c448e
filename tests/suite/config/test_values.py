from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.suite.config.values import (
    PodSecurityLevel,
    Reader,
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
)

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
        ("privileged", PodSecurityLevel("privileged")),
        ("baseline:latest", PodSecurityLevel("baseline", "latest")),
        ("restricted:v1.30", PodSecurityLevel("restricted", "v1.30")),
    ],
)
def test_pod_security_level_with_version(text: str, level: PodSecurityLevel) -> None:
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
