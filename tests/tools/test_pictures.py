from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.test_links import ROOT

if TYPE_CHECKING:
    from pathlib import Path

PICTURES = sorted((ROOT / "docs" / "images").glob("*.png"))


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.stem)
def test_a_picture_is_small_and_shown(picture: Path) -> None:
    assert picture.stat().st_size < 150_000, "run `python -m tools.pictures`"
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    assert any(f"images/{picture.name})" in page.read_text() for page in pages)
