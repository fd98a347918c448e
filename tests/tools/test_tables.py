from __future__ import annotations

import pytest

from tools.tables import FOLDER, TABLES, render_page


@pytest.mark.parametrize("page", TABLES)
def test_tables_are_those_of_the_code(page: str) -> None:
    assert (FOLDER / page).read_text() == render_page(page), "run `python -m tools.tables`"
