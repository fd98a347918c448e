"""Reports of the trials in which a failure is shrunk."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.plugin.test_explore import _RACE
from tests.plugin.test_explore import explored as explored

if TYPE_CHECKING:
    from collections.abc import Callable

_NOTING = """
import json
import pathlib


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed:
        has_source = "# Many perturbations" in report.longreprtext
        noted = [item.config.getoption("tbstyle"), has_source]
        with pathlib.Path("noted").open("a") as file:
            file.write(json.dumps(noted) + "\\n")
    return report
"""


def test_trials_parse_no_source(
    pytester: pytest.Pytester, explored: Callable[..., pytest.RunResult]
) -> None:
    conftest = pytester.path / "conftest.py"
    conftest.write_text(conftest.read_text() + _NOTING)
    pytester.makepyfile(test_it=_RACE)

    result = explored("--kwait-explore=3", "--kwait-seed=7")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    noted = [json.loads(line) for line in (pytester.path / "noted").read_text().splitlines()]
    assert noted[0] == ["auto", True]
    assert ["line", False] in noted
    assert sorted({tuple(each) for each in noted}) == [("auto", True), ("line", False)]
    result.stdout.fnmatch_lines(["*# Many perturbations, of which one matters."])
