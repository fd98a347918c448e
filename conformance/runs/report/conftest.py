"""A headless browser for tests of the report page."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tools.browser import MISSING, find_browser, launch_browser

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, ConsoleMessage, Page, Request


def await_frames(page: Page) -> None:
    """Wait until a page has drawn what depends on its size or scroll position."""
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


# Playwright keeps an event loop in the thread: it must end before other tests run theirs.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """A headless browser; without one the test is skipped, but not in CI, which installs it."""
    pytest.importorskip("playwright", reason="needs Playwright: the dependency group `browser`")
    path = find_browser()
    if path is None:
        if os.environ.get("CI"):
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    with launch_browser(path) as browser:
        yield browser


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Open a page; the test fails if a page logs errors or requests anything but its own file."""
    problems: list[str] = []
    contexts = []

    def record_console(message: ConsoleMessage) -> None:
        if message.type == "error":
            problems.append(message.text)

    def record_request(request: Request) -> None:
        if not request.url.startswith("file:"):
            problems.append(f"request for {request.url}")

    def visit(url: str, *, width: int = 1280, height: int = 900, dark: bool = False) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": height},
            is_mobile=width < 600,
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", record_console)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", record_request)
        page.goto(url)
        await_frames(page)
        return page

    yield visit
    for context in contexts:
        context.close()
    assert problems == []
