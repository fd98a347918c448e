from __future__ import annotations

import pytest

from pytest_kwait.suite.artifacts.dump import is_failing


@pytest.mark.parametrize(
    ("phase", "conditions", "failing"),
    [
        ("Running", {"Initialized": "True", "Ready": "True"}, False),
        ("Running", {"Initialized": "True", "Ready": "False"}, True),
        ("Running", {"Initialized": "True"}, True),
        ("Failed", {"Ready": "True"}, True),
        ("Succeeded", {"Ready": "False"}, False),
        ("Pending", {}, True),
    ],
)
def test_pods_whose_logs_are_wanted(phase: str, conditions: dict[str, str], failing: bool) -> None:
    listed = [{"type": type, "status": status} for type, status in conditions.items()]
    assert is_failing({"status": {"phase": phase, "conditions": listed}}) is failing
