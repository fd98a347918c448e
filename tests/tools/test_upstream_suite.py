"""What `python -m tools.upstream_suite` makes of ginkgo's report and of its lists."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tools.upstream_suite.assets import Programs
from tools.upstream_suite.images import UNPULLABLE, make_mappings
from tools.upstream_suite.results import (
    Result,
    count_tests,
    format_table,
    get_sig,
    list_differences,
    read_not_passing,
    read_report,
)
from tools.upstream_suite.run import make_focus

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]
QUICK = (ROOT / "tools" / "upstream_suite" / "quick.txt").read_text().splitlines()


def spec(text: str, state: str, message: str = "", kind: str = "It") -> dict[str, Any]:
    return {
        "ContainerHierarchyTexts": ["[sig-apps] Job"],
        "LeafNodeText": text,
        "LeafNodeType": kind,
        "State": state,
        "RunTime": 1_500_000_000,
        "Failure": {"Message": message} if message else None,
    }


def test_a_report_has_the_tests_that_have_run(tmp_path: Path) -> None:
    specs = [
        spec("works", "passed"),
        spec("left out", "skipped"),
        spec("asks for Windows", "skipped", "only on Windows"),
        spec("breaks", "failed", "no pod"),
        spec("", "passed", kind="SynchronizedBeforeSuite"),
    ]
    report = tmp_path / "report.json"
    report.write_text(json.dumps([{"SpecReports": specs}]))
    assert read_report(report) == [
        Result("[sig-apps] Job asks for Windows", "skipped", 1.5, "only on Windows"),
        Result("[sig-apps] Job breaks", "failed", 1.5, "no pod"),
        Result("[sig-apps] Job works", "passed", 1.5, ""),
    ]


def test_results_are_counted_by_sig() -> None:
    results = [
        Result("[sig-apps] a", "passed", 1, ""),
        Result("[sig-apps] b", "timedout", 1, ""),
        Result("[sig-node] c", "skipped", 1, "why"),
    ]
    assert format_table(results).splitlines() == [
        "                      passed  failed skipped",
        "apps                       1       1       0",
        "node                       0       0       1",
        "all                        1       1       1",
    ]


def test_what_differs_from_the_list_is_named() -> None:
    results = [
        Result("a", "passed", 1, ""),
        Result("b", "passed", 1, ""),
        Result("c", "failed", 1, "expected"),
        Result("d", "failed", 1, "\nfirst\n\nsecond\n"),
        Result("e", "skipped", 1, "why"),
    ]
    assert list_differences(results, {"b": "reason", "c": "reason", "e": ""}, ["a", "f"]) == [
        "passed, remove it from not_passing.toml: b",
        "failed: d\n    first\n    second",
        "did not run: f",
    ]


def test_a_pattern_matches_its_test_alone() -> None:
    name = "[sig-cli] Kubectl (a|b) works, 1.5 times [Conformance]"
    [pattern] = make_focus([name])
    assert pattern == r"\[sig\-cli\] Kubectl \(a\|b\) works\, 1\.5 times \[Conformance\]$"
    assert re.search(pattern, f"Kubernetes e2e suite {name}")


def test_the_lists_are_consistent() -> None:
    listed = read_not_passing()
    assert sorted(set(QUICK)) == QUICK
    assert not set(QUICK) & set(listed)
    for name in (*QUICK, *listed):
        assert name.endswith("[Conformance]")
        assert get_sig(name) in count_tests()
    assert all(reason and not reason.endswith(".") for reason in listed.values())
    assert sum(count_tests().values()) == 417


def test_mappings_name_programs_of_the_build(tmp_path: Path) -> None:
    mappings = make_mappings(Programs(tmp_path / "suite", tmp_path / "plane", tmp_path / "images"))
    agnhost = mappings["registry.k8s.io/e2e-test-images/agnhost:*"]
    assert (agnhost["command"], agnhost["args"]) == (["/agnhost"], ["pause"])
    assert agnhost["files"]["/agnhost-2"] == tmp_path / "suite" / "agnhost"
    etcd = mappings["registry.k8s.io/etcd:*"]["files"]
    assert etcd == {"/usr/local/bin/etcd": tmp_path / "plane" / "etcd"}
    assert all(image in why for image, why in UNPULLABLE.items())


@pytest.fixture
def run_without(tmp_path: Path) -> Callable[[], subprocess.CompletedProcess[str]]:
    def run() -> subprocess.CompletedProcess[str]:
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"}
        environment |= {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
        return subprocess.run(
            [sys.executable, "-m", "tools.upstream_suite", "--build"],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return run


@pytest.mark.skipif(sys.platform != "linux", reason="the suite needs Linux")
def test_missing_go_is_named(
    run_without: Callable[[], subprocess.CompletedProcess[str]],
) -> None:
    done = run_without()
    assert done.returncode == 69
    assert done.stderr == (
        "upstream_suite: the suite is built with Go 1.26, and there is no go:"
        " install Go 1.26 from https://go.dev/dl\n"
    )
