from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.suite.config.pod_security import PodSecurity, parse_pod_security


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("privileged", PodSecurity("privileged")),
        ("baseline:latest", PodSecurity("baseline", "latest")),
        ("restricted:v1.30", PodSecurity("restricted", "v1.30")),
    ],
)
def test_a_level_and_the_release_it_is_of(text: str, level: PodSecurity) -> None:
    assert parse_pod_security(text, "pod_security") == level
    assert parse_pod_security(level, "pod_security") == level


@pytest.mark.parametrize(
    "value",
    ["", "strict", "Baseline", "baseline:", "baseline:1.30", "baseline:v1.030", ":latest", 3, None],
)
def test_anything_else_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_pod_security(value, "pod_security", "ini kwait_pod_security")
    assert str(caught.value) == (
        f"pod_security={value!r} (from ini kwait_pod_security) is not valid: use privileged, "
        "baseline or restricted, and :VERSION behind it for the standard of one release, for "
        "example restricted:v1.30 or restricted:latest"
    )
