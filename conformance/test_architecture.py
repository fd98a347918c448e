"""docs/architecture.md names modules in the order in which they are called."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tools.walks import ROOT, WALKS, trace_walk

if TYPE_CHECKING:
    from pathlib import Path

PAGE = ROOT / "docs" / "architecture.md"
SECTIONS = {
    "A marker's wait": "marker wait",
    "A failing wait": "failing wait",
    "POST of a pod": "POST pod",
    "A pod's start": "pod to Running",
    "A shard's run": "shard run",
}


def read_steps(page: Path) -> dict[str, list[str]]:
    """Return the modules of each section, without the package's name."""
    sections = re.split(r"^## (.+)$", page.read_text(), flags=re.M)[1:]
    return {
        title: re.findall(r"^\d+\. `pytest_kwait\.([\w.]+)`", text, re.M)
        for title, text in zip(sections[::2], sections[1::2], strict=True)
    }


def test_page_has_a_section_for_each_walk() -> None:
    assert list(read_steps(PAGE)) == list(SECTIONS)
    assert list(SECTIONS.values()) == list(WALKS)


@pytest.mark.parametrize("title", SECTIONS)
def test_modules_are_called_in_the_order_of_the_page(title: str) -> None:
    steps = read_steps(PAGE)[title]
    called = trace_walk(SECTIONS[title]).modules

    assert [name for name in called if name in steps] == steps
