"""docs/architecture.md names modules in the order in which they are called."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tools.walks import ROOT, WALKS, Walk, trace_walk

if TYPE_CHECKING:
    from pathlib import Path

PAGE = ROOT / "docs" / "architecture.md"
SECTIONS = {
    "A marker's wait": "marker wait",
    "A failing wait": "failing wait",
    "POST of a pod": "POST pod",
    "A pod's start": "pod to Running",
    "A program's start": "program to log",
    "A shard's run": "shard run",
}


def read_steps(page: Path) -> dict[str, list[str]]:
    """Return the modules of each section that is a walk, without the package's name."""
    sections = re.split(r"^## (.+)$", page.read_text(), flags=re.M)[1:]
    steps = {
        title: re.findall(r"^\d+\. `pytest_kwait\.([\w.]+)`", text, re.M)
        for title, text in zip(sections[::2], sections[1::2], strict=True)
    }
    return {title: modules for title, modules in steps.items() if modules}


def test_page_has_a_section_for_each_walk() -> None:
    assert list(read_steps(PAGE)) == list(SECTIONS)
    assert list(SECTIONS.values()) == list(WALKS)


@pytest.mark.parametrize("title", SECTIONS)
def test_modules_are_called_in_the_order_of_the_page(title: str) -> None:
    """Those that call each other do so by callbacks."""
    steps = read_steps(PAGE)[title]
    walk = trace_walk(SECTIONS[title])

    assert [name for name in walk.modules if name in steps] == steps
    assert walk.two_way
    assert walk.find_mutual(ROOT) == []


def test_modules_that_need_each_other_are_found(tmp_path: Path) -> None:
    package = tmp_path / "pytest_kwait"
    package.mkdir()
    (package / "above.py").write_text("import pytest_kwait.below\nimport pytest_kwait.beside\n")
    (package / "below.py").write_text("def run(callback): callback()\n")
    (package / "beside.py").write_text("def run():\n    import pytest_kwait.above\n")
    down = [("above", "below"), ("above", "beside")]
    calls = [*down, *(pair[::-1] for pair in down)]
    walk = Walk([], calls, set(calls))

    assert walk.two_way == down
    assert walk.find_mutual(tmp_path) == [("above", "beside")]
    assert walk._replace(direct=set()).find_mutual(tmp_path) == []
