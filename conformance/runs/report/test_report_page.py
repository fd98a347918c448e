"""The report page in a headless browser: reading, clicking, keyboard.

Needs Playwright and a headless browser (`python3 -m tools.browser` installs one), but no cluster.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.suite.report.files import write_report
from tools.sample_reports import night

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Page

    Visit = Callable[..., Page]


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(night(240), path)
    return path.as_uri()


def test_failures_come_first(visit: Visit, url: str) -> None:
    page = visit(url)
    assert page.inner_text("h1") == "✕ 4 tests failed"
    assert page.evaluate("document.title") == "✕ 4 tests failed - kwait report"
    cards = page.locator("#failures .card").all_inner_texts()
    assert len(cards) == 4
    assert "test_sleepers[40]" in cards[0]
    assert "pod sleepers-x7k2p: ErrImagePull: failed to pull and unpack" in cards[0]
    assert "Failed \u00d73: Failed to pull image" in cards[0]
    assert page.locator(".reasons .entry").all_inner_texts() == [
        "3 \u00d7\npod sleepers-x7k2p: ErrImagePull: failed to pull and unpack image "
        '"registry.example/sleeper:latst": failed to resolve reference '
        '"registry.example/sleeper:latst": registry.example/sleeper:latst: not found'
    ]
    above = page.evaluate(
        "document.querySelector('.card').getBoundingClientRect().top"
        " < document.querySelector('#timeline').getBoundingClientRect().top"
    )
    assert above


def test_waits_that_tests_caught_are_no_failures(visit: Visit, tmp_path: Path) -> None:
    report = night(240)
    failed = [wait for wait in report.waits if wait.outcome == "failed early"]
    assert len(failed) == 3
    tests = {test.test: test for test in report.tests}
    # One test passes nevertheless, another one fails for another reason.
    passed, other = failed[:2]
    passed.caught = other.caught = True
    tests[passed.test].outcome, tests[passed.test].text = "passed", ""
    tests[other.test].text = "E   assert 2 == 3"
    for run in report.runs:
        run.tests["failed"] = sum(
            test.run == run.id and test.outcome == "failed" for test in report.tests
        )
    write_report(report, tmp_path / "report.html")
    page = visit((tmp_path / "report.html").as_uri())
    assert page.inner_text("h1") == "✕ 3 tests failed"
    stats = page.inner_text(".stats").split("\n")
    assert stats[stats.index("did not come true") + 1] == "2"
    assert stats[stats.index("caught by their tests") + 1] == "2"
    name = other.test.partition("::")[2]
    card = page.locator("#failures .card", has_text=name).first
    assert "E   assert 2 == 3" in card.inner_text()
    assert "ErrImagePull" not in card.inner_text()
    assert page.locator(".reasons").count() == 0
    page.click("text=2 waits that their tests caught")
    entries = page.locator(".expected .failure .entry").all_inner_texts()
    assert [entry.split("\n")[0] for entry in entries] == ["\u2013 failed early, caught"] * 2
    assert page.inner_text(".legend").split("\n") == [
        "✓ met", "✕ failed early", "◷ timed out", "\u2013 caught",
    ]  # fmt: skip
    page.click(".expected .failure .entry")
    assert page.inner_text("dialog[open] h2").startswith("\u2013 failed early, caught\njob ")
    assert "by the test: this wait did not fail it" in page.inner_text("dialog[open] .facts")


def test_explored_tests_show_their_distinct_failures(visit: Visit, tmp_path: Path) -> None:
    command = "pytest shop.py::test_sleepers --kwait-explore 1 --kwait-seed 12"
    failure = {"headline": "assert 2 == 3", "runs": 9, "seed": 12, "command": command}
    report = night(240)
    for test in report.tests:
        if test.outcome == "failed":
            test.explored = {"runs": 1200, "passed": 1191, "failures": [failure]}
    write_report(report, tmp_path / "report.html")
    page = visit((tmp_path / "report.html").as_uri())
    card = page.locator("#failures .card").first
    assert "1,191 of 1,200 runs passed" in card.inner_text()
    assert card.locator(".clues").first.inner_text().split("\n") == [
        "9 runs", "assert 2 == 3", "again", command,
    ]  # fmt: skip
    card.locator("h3 .link").click()
    assert (
        page.locator(".facts", has_text="Explored")
        .inner_text()
        .endswith("1,191 of 1,200 runs passed")
    )
    failures = page.locator("section", has=page.get_by_role("heading", name="Distinct failures"))
    assert failures.last.inner_text().split("\n")[1:] == ["9 runs assert 2 == 3", command]


def test_recorded_tests_have_the_command_that_replays_them(visit: Visit, tmp_path: Path) -> None:
    report = night(240)
    for test in report.tests:
        if test.outcome == "failed":
            test.recording = "artifacts/shop/recording.jsonl.gz"
    write_report(report, tmp_path / "report.html")
    page = visit((tmp_path / "report.html").as_uri())
    page.click(".failure .entry")
    command = "kwait replay artifacts/shop/recording.jsonl.gz"
    assert page.inner_text("dialog dd code") == command
    page.click("dialog .link")
    assert page.inner_text("dialog dd code") == command


def test_wait_details(visit: Visit, url: str) -> None:
    page = visit(url)
    page.click(".failure .entry")
    told = page.inner_text("dialog[open]")
    for part in (
        "can no longer have 3 pods Running",
        "6.30 s of 5m 00s",
        "shard 1/2 · gw0",
        "pod sleepers-x7k2p: ErrImagePull: failed to pull and unpack image",
        "main: waiting ErrImagePull",
        "Failed \u00d73 pod/sleepers-x7k2p",
        "Log of sleepers-b2c9d/main (the run before)",
        # A container's output is text, not markup.
        "</script><img src=x onerror=alert(1)>",
    ):
        assert part in told
    page.click("dialog summary")
    assert "limit     5m0s, ended after 6.3s" in page.inner_text("dialog details pre")
    page.click("dialog .link")
    assert "Its waits" in page.inner_text("dialog[open]")
    page.click("dialog .close")
    assert page.evaluate("document.querySelector('dialog[open]')") is None


def test_a_wait_has_an_address(visit: Visit, url: str) -> None:
    page = visit(url)
    page.click(".failure .entry")
    fragment = page.evaluate("location.hash")
    other = visit(url + fragment)
    assert "job nightly-gw0-web-00041/sleepers" in other.inner_text("dialog[open] h2")


def test_the_timeline_shows_and_opens_waits(visit: Visit, url: str) -> None:
    page = visit(url)
    x, y = page.evaluate(
        "(() => { const e = document.querySelector('canvas');"
        " e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect();"
        " const data = e.getContext('2d').getImageData(0, 0, e.width, e.height).data;"
        " for (let at = 0; at < data.length; at += 4)"
        "  if (data[at] === 0xd5 && data[at + 1] === 0x30 && data[at + 2] === 0x3e)"
        "   return [r.x + at / 4 % e.width + 2, r.y + Math.floor(at / 4 / e.width) + 4]; })()"
    )
    page.mouse.move(x, y)
    page.wait_for_selector(".tip")
    tip = page.inner_text(".tip")
    assert "failed early after 6.30 s" in tip
    assert "job sleepers to have 3 pods Running" in tip
    assert "seen: pod sleepers-x7k2p: ErrImagePull: failed to pull and unpack" in tip
    page.mouse.click(x, y)
    assert "job nightly-gw0-web-00041/sleepers" in page.inner_text("dialog[open] h2")


@pytest.fixture(scope="session")
def url_with_steps(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("report") / "steps.html"
    write_report(night(8, shards=1, workers=1, steps=True), path)
    return path.as_uri()


@pytest.mark.parametrize("width", [1280, 390], ids=["desk", "phone"])
def test_steps_are_bands_in_a_lane_of_the_timeline(
    visit: Visit, url_with_steps: str, width: int
) -> None:
    page = visit(url_with_steps, width=width)
    page.evaluate("document.querySelector('#timeline').focus()")
    press(page, "ArrowDown")
    spoken = page.inner_text("#timeline-spoken")
    assert spoken.startswith("gw0 steps: create the shop, 2 waits in ")
    assert spoken.endswith(" s. tests/e2e/test_jobs.py::test_sleepers[0]")
    assert page.inner_text(".tip").startswith("create the shop\n2 waits in ")
    press(page, "ArrowRight")
    assert "gw0 steps: create the shop > scale it, 1 wait in " in page.inner_text(
        "#timeline-spoken"
    )
    press(page, "ArrowRight", "ArrowRight")
    assert "gw0 steps: check it, 1 wait in " in page.inner_text("#timeline-spoken")
    press(page, "Home", "Enter")
    assert "Step\ncreate the shop" in page.inner_text("dialog[open]")
    page.keyboard.press("Escape")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    height = page.evaluate("document.querySelector('canvas').clientHeight")
    left, top = page.evaluate(
        "(r => [r.left, r.top])(document.querySelector('canvas').getBoundingClientRect())"
    )
    page.mouse.move(left + width / 2, top + height - 30)
    assert "create the shop" in page.inner_text(".tip")


def test_page_works_by_keyboard(visit: Visit, url: str) -> None:
    page = visit(url)
    press(page, "Tab", "Enter")
    assert page.evaluate("document.activeElement.id") == "failures"
    press(page, "Tab", "Enter")
    assert "failed early" in page.inner_text("dialog[open] h2")
    page.keyboard.press("ArrowRight")
    assert "00138/sleepers" in page.inner_text("dialog[open] h2")
    press(page, "ArrowLeft", "Escape")
    assert page.evaluate("document.querySelector('dialog[open]')") is None

    page.evaluate("document.querySelector('#timeline').focus()")
    press(page, "ArrowRight", "ArrowDown", "End")
    spoken = page.inner_text("#timeline-spoken")
    assert spoken.startswith("1/2 gw1: ")
    press(page, "+", "+", "0", "Enter")
    assert page.inner_text("dialog[open] h2").startswith("✓ met")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") == "timeline"

    page.evaluate("document.querySelector('#tab-waits').focus()")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.id") == "tab-tests"
    page.evaluate("document.querySelector('.scroll').focus()")
    page.keyboard.press("End")
    assert (
        page.evaluate("document.querySelector('.row.active').getAttribute('aria-rowindex')")
        == "121"
    )
    press(page, "Home", "ArrowDown", "Enter")
    assert "Of it, waiting" in page.inner_text("dialog[open]")


def test_tables_are_sorted_and_filtered(visit: Visit, url: str) -> None:
    page = visit(url)
    assert page.locator(".rows .time").all_inner_texts()[:2] == ["30.0 s", "24.7 s"]
    page.click(".head .start button")
    assert page.locator(".rows .start").all_inner_texts()[0] == "20:26:44"
    page.click(".filters input")
    page.keyboard.insert_text("sleepers no-such-thing")
    assert page.inner_text(".rows") == "Nothing here."
    page.evaluate("document.querySelector('.filters input').value = ''")
    page.keyboard.insert_text("latst")
    assert page.inner_text(".filters .muted") == "3 of 238"
    page.click("#tab-errors")
    assert page.locator(".rows .cell.retries").all_inner_texts()[0] == "5"
    assert "etcdserver: leader changed" in page.locator(".rows .cell.what").all_inner_texts()[0]
    page.click("#tab-tests")
    assert page.locator(".rows .cell.testcell").all_inner_texts()[0] == "2 waits"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390], ids=["desk", "phone"])
def test_page_is_legible(visit: Visit, url: str, tmp_path: Path, width: int, dark: bool) -> None:
    """Light and dark, wide and narrow: no overflow, sufficient contrast."""
    page = visit(url, width=width, height=844, dark=dark)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.screenshot(path=tmp_path / "page.png")
    page.click(".failure .entry")
    assert page.evaluate("document.querySelector('dialog').scrollWidth") <= width
    page.screenshot(path=tmp_path / "wait.png")
    assert _size(tmp_path / "wait.png") == (width, 844)
    page.keyboard.press("Escape")
    poor: Any = page.evaluate(CONTRAST)
    assert poor == []


def test_page_respects_reduced_motion(visit: Visit, url: str) -> None:
    page = visit(url)
    page.click(".failure .entry")
    assert page.evaluate("document.getAnimations().length") == 0
    page.keyboard.press("Escape")
    page.emulate_media(reduced_motion="no-preference")
    # The animation may be over before the next command on a busy machine.
    page.evaluate(
        "document.addEventListener('animationstart', () => document.body.classList.add('animated'))"
    )
    page.click(".failure .entry")
    page.wait_for_selector("body.animated", state="attached")


def test_page_prints(visit: Visit, url: str) -> None:
    page = visit(url)
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.querySelector('.filters')).display") == "none"
    assert page.evaluate("getComputedStyle(document.querySelector('.card')).display") != "none"
    assert len(page.pdf()) > 10_000


def test_ten_thousand_waits_are_a_few_rows(visit: Visit, tmp_path: Path) -> None:
    """Only visible rows are rendered."""
    path = tmp_path / "long.html"
    write_report(night(10_300, shards=4, workers=4), path)
    page = visit(path.as_uri())
    assert page.inner_text("#tab-waits .count") == "10,223"
    assert page.evaluate("document.querySelectorAll('*').length") < 3000
    page.evaluate("document.querySelector('.scroll').scrollTop = 1e9")
    page.wait_for_selector(".rows .row:last-child[aria-rowindex='10224']")


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def _size(png: Path) -> tuple[int, int]:
    width, height = struct.unpack(">II", png.read_bytes()[16:24])
    return width, height


CONTRAST = """(() => {
  const light = (colour) => {
    const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map((part) => {
      const value = part / 255;
      return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const back = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const colour = getComputedStyle(each).backgroundColor;
      if (!/, 0\\)$/.test(colour)) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  const poor = [];
  for (const element of document.querySelectorAll('#page *')) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!own || !element.checkVisibility() || element.disabled) continue;
    const lights = [light(getComputedStyle(element).color), light(back(element))].sort();
    const contrast = (Math.max(...lights) + 0.05) / (Math.min(...lights) + 0.05);
    if (contrast < 4.5) poor.push(`${element.className}: ${element.innerText} ${contrast}`);
  }
  return poor;
})()"""
