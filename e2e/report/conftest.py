"""A headless browser for tests of the report page."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tools.browser import MISSING, find_browser

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tools.browser import Browser, Page


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A headless browser; without one the test is skipped, but not in CI, which installs it."""
    path = find_browser()
    if path is None:
        if os.environ.get("CI"):
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    from tools.browser import Browser

    browser = Browser(path, tmp_path_factory.mktemp("browser"))
    yield browser
    browser.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Open a page; none of them may complain, or ask anybody for anything."""
    pages = []

    def visit(url: str, **how: object) -> Page:
        pages.append(browser.open(url, **how))  # type: ignore[arg-type] # width, height and dark
        return pages[-1]

    yield visit
    complaints = [complaint for page in pages for complaint in page.complaints()]
    for page in pages:
        page.close()
    assert complaints == []
