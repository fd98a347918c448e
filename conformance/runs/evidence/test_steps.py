"""Named steps of a test are in its failure message, JUnit file and report."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from conformance.runs.inner_runs import run

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait import Cluster, Kwait

SUITE = """
def test_shop(kwait):
    with kwait.step("look around"):
        kwait.list("pods")
    with kwait.step("create the shop"):
        with kwait.step("wait for it"):
            kwait.wait_for("pod/shop", "create", timeout=0.5)


def test_price(kwait):
    with kwait.step("compare prices"):
        assert 1 == 2
"""


def test_steps(kwait: Kwait, kwait_cluster: Cluster, tmp_path: Path) -> None:
    status, output = run(
        tmp_path,
        kwait_cluster.kubeconfig,
        SUITE,
        "--kwait-report=report.json",
        "--junitxml=junit.xml",
    )

    assert status == 1
    assert "in step create the shop > wait for it" in output
    assert "in step compare prices" in output
    (wait,) = [
        each
        for each in json.loads((tmp_path / "report.json").read_text())["waits"]
        if each["subject"].endswith("/shop")
    ]
    assert wait["step"] == "create the shop > wait for it"
    steps = (tmp_path / "junit.xml").read_text()
    assert 'name="kwait_step" value="create the shop &gt; wait for it"' in steps
    assert 'name="kwait_step" value="compare prices"' in steps
