"""Recordings of two jobs on the embedded cluster, played on their merged page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.runs.inner_runs import run
from pytest_kwait.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest
    from playwright.sync_api import Page

SUITE = """
import pytest

DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "shops.example.com"},
    "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "shops", "kind": "Shop"},
        "versions": [{
            "name": "v1", "served": True, "storage": True,
            "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": True,
            }},
            "additionalPrinterColumns": [
                {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            ],
        }],
    },
}

def pod(*command):
    container = {"name": "main", "image": "busybox:1.36", "command": [*command]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "till"},
            "spec": {"restartPolicy": "Never", "containers": [container]}}

@pytest.mark.parametrize("number", range(4))
def test_good(kwait, number):
    kwait.create(pod("sleep", "600"))
    kwait.wait_for_pod_ready("till")

def test_opens(kwait):
    kwait.create(DEFINITION)
    kwait.wait_for("crd/shops.example.com", "condition=Established")
    kwait.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"},
                  "stringData": {"key": "s3cret-value"}})
    with kwait.step("open the shop"):
        kwait.create({"apiVersion": "example.com/v1", "kind": "Shop", "metadata": {"name": "mine"},
                      "spec": {"size": 3}})
        kwait.create(pod("sh", "-c", "echo no s3cret-value; sleep 1; exit 3"))
        kwait.wait_for_pod_success("till")
"""


def test_recordings_of_two_jobs_are_played_on_one_page(
    tmp_path: Path, visit: Callable[..., Page], capsys: pytest.CaptureFixture[str]
) -> None:
    parts = []
    for shard in (1, 2):
        folder = tmp_path / f"job-{shard}"
        folder.mkdir()
        status, said = run(
            folder,
            None,
            SUITE,
            f"--kwait-shard={shard}/2",
            "--kwait-artifacts=artifacts",
            "--kwait-report=part.json",
        )
        assert status in (0, 1), said
        parts.append(str(folder / "part.json"))
    page_file = tmp_path / "report.html"
    assert main(["report", "merge", *parts, "-o", str(page_file)]) == 0
    capsys.readouterr()
    assert "s3cret-value" not in page_file.read_text(encoding="utf-8")

    page = visit(page_file.as_uri())
    assert page.inner_text("h1") == "✕ 1 test failed"
    page.locator(".card .play").click()
    assert (page.get_attribute(".player input", "aria-valuetext") or "").endswith("the failure")
    assert "✕ failure in call" in page.inner_text(".player [role=status]")
    titles = [" ".join(each.split()) for each in page.locator(".scene caption").all_inner_texts()]
    assert titles[:3] == [
        "pods",
        "customresourcedefinitions.apiextensions.k8s.io",
        "shops.example.com",
    ]
    assert _rows(page, "pods") == ["till|0/1|Error|0"]
    assert _rows(page, "shops") == ["mine|3"]
    assert "no (hidden)" in page.inner_text(".lines")
    assert "✕ failed early" in page.inner_text(".beside")

    # At the first sight of each object the page says that it is new.
    page.keyboard.press("Home")
    news = []
    while "✕ failure" not in (moment := page.inner_text(".player [role=status]")):
        news.append(moment)
        page.keyboard.press("n")
    assert "step open the shop · shops/mine new: Size 3" in news
    assert any(
        "pods/till Ready 0/1 → 1/1, Status ContainerCreating → Running" in one for one in news
    )
    assert any("pods/till Ready 1/1 → 0/1, Status Running → Error" in one for one in news)


def _rows(page: Page, kind: str) -> list[str]:
    """Return the rows of a kind: name and cells, without what changed."""
    rows = page.locator(f".scene table:has(caption:has-text('{kind}')) tbody tr").all()
    return [
        "|".join(
            text.rpartition("→")[2].strip()
            for text in row.locator("th, td:not(.mark)").all_inner_texts()
        )
        for row in rows
    ]
