"""The player of recordings on the report page, in a headless browser: keyboard, playing, widths.

Needs Playwright and a headless browser (`python3 -m tools.browser` installs one), but no cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from conformance.runs.report.conftest import await_frames
from conformance.runs.report.test_report_page import CONTRAST, press
from pytest_kwait.suite.report.files import write_report
from pytest_kwait.suite.report.records import TestRecord
from tools.sample_recordings import add_playbacks
from tools.sample_reports import night

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Page

    Visit = Callable[..., Page]

SLIDER = ".player input"


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("player") / "report.html"
    report = night(240, steps=True)
    add_playbacks(report)
    write_report(report, path)
    return path.as_uri()


@pytest.fixture(scope="session")
def first(url: str) -> str:
    """The fragment of the first failed test: the number of its record in the report."""
    tests = night(240).tests
    return f"#play-{next(at for at, test in enumerate(tests) if test.outcome == 'failed')}"


def time(page: Page) -> float:
    """The shown time in seconds."""
    return float(page.inner_text(".player .buttons .num").split()[0])


def row(page: Page, name: str) -> str:
    """The row of an object, its cells separated by bars."""
    cells = page.locator(".scene tr", has=page.locator(f"th:text-is('{name}')")).locator("th, td")
    return "|".join(" ".join(cell.split()) for cell in cells.all_inner_texts())


def test_a_failed_test_is_shown_at_its_failure(visit: Visit, url: str, first: str) -> None:
    page = visit(url)
    assert page.locator("#failures .card .play").all_inner_texts() == ["▶ Play the recording"] * 4
    page.locator("#failures .play").first.click()
    assert page.evaluate("location.hash") == first
    assert page.inner_text("#player-title") == "✕ failed\ntests/e2e/test_jobs.py::test_sleepers[40]"
    assert time(page) == 13.551
    assert page.inner_text(".player [role=status]") == (
        "✕ failure in call · step create the shop > scale it · "
        "0.114 s ago: pods/sleepers-x7k2p Status ErrImagePull → ImagePullBackOff"
    )
    assert row(page, "sleepers-x7k2p") == (
        "sleepers-x7k2p|0/1|ErrImagePull → ImagePullBackOff|0|● changed"
    )
    assert row(page, "sleepers-b2c9d") == "sleepers-b2c9d|1/1|Running|0|"
    heads = page.locator(".scene table:has-text('deployments') thead th").all_text_contents()
    assert heads == ["Name", "Ready", "Up-to-date", "Available", "Change"]
    assert row(page, "settings") == "settings|1|"
    beside = page.inner_text(".beside")
    assert "failure in call at 13.551 s: job nightly-gw0-web-00041/sleepers can no longer" in beside
    assert "✕ failed early" in beside
    assert "ended at 13.541 s" in beside
    assert "13.437 s BackOff \u00d73 pod/sleepers-x7k2p: Back-off pulling image" in beside
    assert "sleepers-b2c9d/main 6 of 600 s over" in page.inner_text(".lines")
    replayed = "In full, with kubectl: kwait replay artifacts/nightly-gw0-web-00041/recording"
    assert replayed in page.inner_text(".player")


def test_the_slider_works_by_keyboard(visit: Visit, url: str) -> None:
    page = visit(url)
    page.locator("#failures .play").first.focus()
    press(page, "Enter")
    assert page.evaluate(f"document.activeElement === document.querySelector('{SLIDER}')")
    said = page.get_attribute(SLIDER, "aria-valuetext")
    assert said == "13.551 of 13.841 seconds, the failure"
    press(page, "ArrowLeft")
    assert time(page) == 13.451
    assert page.get_attribute(SLIDER, "aria-valuetext") == "13.451 of 13.841 seconds"
    press(page, "ArrowRight", "PageDown")
    assert time(page) == 11.551
    press(page, "Home")
    assert time(page) == 0
    status = ".player [role=status]"
    assert page.inner_text(status) == "nothing has changed yet"
    assert page.inner_text("#player-objects + div") == "There is none."
    beside = page.inner_text(".beside")
    assert "… running\ndeployment web to become complete in nightly-gw0-web-00040\n" in beside
    assert "nothing seen yet\nsince 0.000 s" in beside
    assert "None yet." in beside
    assert "No line yet." in beside

    press(page, "n", "n")
    assert time(page) == 0.02
    assert page.inner_text(status) == "step create the shop · configmaps/settings new: Data 1"
    assert row(page, "settings") == "settings|1|+ new"
    press(page, "n", "n")
    assert row(page, "settings") == "settings|1|"
    assert "… running\n" in page.inner_text(".beside")
    press(page, "p")
    assert time(page) == 0.03
    press(page, "f")
    assert time(page) == 13.551
    press(page, "End")
    assert time(page) == 13.841
    press(page, "Escape")
    # The event of closing comes late.
    page.wait_for_function("!document.querySelector('dialog[open]') && location.hash === ''")


def test_a_wait_of_the_player_keeps_its_link(visit: Visit, url: str) -> None:
    page = visit(url)
    page.locator("#failures .play").first.click()
    page.locator(".player .beside button.entry").first.click()
    await_frames(page)
    assert page.locator("dialog[open]").count() == 1
    opened = page.evaluate("location.hash")
    assert opened.startswith("#wait-")
    assert page.inner_text("#detail-title") != ""


def test_dragging_changes_the_address_once(visit: Visit, url: str, first: str) -> None:
    page = visit(url)
    page.locator("#failures .play").first.click()
    page.evaluate("""() => {
        window.changes = 0;
        const original = history.replaceState.bind(history);
        history.replaceState = (...given) => { window.changes += 1; original(...given); };
    }""")
    box = page.locator(".player canvas").bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 20, middle)
    page.mouse.down()
    for step in range(30):
        page.mouse.move(box["x"] + 20 + 5 * step, middle)
    moved = time(page)
    assert page.evaluate("window.changes") == 0
    page.mouse.up()
    assert page.evaluate("[window.changes, location.hash]") == [1, f"{first}@{moved:g}"]


def test_a_browser_may_refuse_to_change_the_address(visit: Visit, url: str) -> None:
    page = visit(url)
    page.locator("#failures .play").first.click()
    page.evaluate("""() => {
        history.replaceState = () => { throw new DOMException('too many', 'SecurityError'); };
    }""")
    press(page, "Home", "n")
    assert time(page) == 0.01
    press(page, "Escape")
    assert page.evaluate("document.querySelector('dialog[open]')") is None


def test_keys_work_wherever_the_focus_is(visit: Visit, url: str) -> None:
    page = visit(url)
    page.locator("#failures .play").first.click()
    press(page, "Home")
    page.focus(".player button[aria-label='Next change']")
    press(page, "Enter", "Space")
    assert time(page) == 0.02
    press(page, "p")
    assert time(page) == 0.01
    page.focus(".player select")
    press(page, "n")
    assert time(page) == 0.02


def test_it_plays_from_the_start_and_pauses(visit: Visit, url: str, first: str) -> None:
    page = visit(url)
    page.emulate_media(reduced_motion="no-preference")
    page.locator("#failures .play").first.click()
    page.focus(SLIDER)
    press(page, "Space")
    page.wait_for_selector(".player button[aria-label='Pause']")
    # The page refuses functions that are evaluated from texts, as Playwright would poll one.
    while time(page) <= 0.1:
        await_frames(page)
    press(page, "Space")
    page.wait_for_selector(".player button[aria-label='Play']")
    paused = time(page)
    assert 0.1 < paused < 13.841
    await_frames(page)
    assert time(page) == paused
    assert page.evaluate("location.hash") == f"{first}@{paused:g}"
    page.select_option(".player select", "50")
    page.focus(SLIDER)
    press(page, "Space")
    page.wait_for_selector(".player button[aria-label='Play']")
    assert time(page) == 13.841


def test_without_motion_the_time_moves_in_jumps(visit: Visit, url: str) -> None:
    page = visit(url)
    page.locator("#failures .play").first.click()
    page.evaluate("""() => {
        window.drawn = 0;
        new MutationObserver(() => { window.drawn += 1; })
            .observe(document.querySelector('.player .buttons .num'), {childList: true});
    }""")
    page.select_option(".player select", "10")
    page.click(".player button[aria-label='Play']")
    page.wait_for_selector(".player button[aria-label='Play']")
    assert time(page) == 13.841
    # 1.4 s: the start, and at most a jump each 0.5 s.
    assert page.evaluate("window.drawn") <= 5


def test_a_click_above_the_slider_chooses_a_time(visit: Visit, url: str) -> None:
    page = visit(url)
    page.locator("#failures .play").first.click()
    page.click(".transport canvas")
    assert abs(time(page) - 13.841 / 2) < 0.05
    page.click(".transport canvas", position={"x": 1, "y": 20})
    assert time(page) == 0


def test_a_test_that_passed_is_played_from_the_tables(visit: Visit, tmp_path: Path) -> None:
    report = night(240)
    add_playbacks(report)
    passed = report.tests[0]
    passed.playback = next(test.playback for test in report.tests if test.playback is not None)
    passed.playback.failure = None
    assert passed.outcome == "passed"
    write_report(report, tmp_path / "report.html")
    page = visit((tmp_path / "report.html").as_uri())
    page.click("#tab-tests")
    page.fill(".filters input", passed.test)
    page.locator(".rows .row").first.click()
    page.click("dialog[open] .play:text('Play it')")
    assert time(page) == 13.841
    assert page.get_attribute(SLIDER, "aria-valuetext") == "13.841 of 13.841 seconds"
    assert page.locator("button[aria-label='Go to the failure']").is_hidden()
    press(page, "f")
    assert time(page) == 13.841


def test_a_wait_leads_to_the_player_and_back(visit: Visit, url: str, first: str) -> None:
    page = visit(url)
    page.locator(".failure .entry").first.click()
    link = page.locator("dialog[open] .play")
    assert link.inner_text() == "▶ Show the end of this wait"
    assert link.get_attribute("href") == f"{first}@13.541"
    link.click()
    assert time(page) == 13.541
    page.click(".player .beside .entry")
    assert page.evaluate("document.querySelectorAll('dialog[open]').length") == 1
    assert page.inner_text("#detail-title").startswith("✕ failed early")
    press(page, "Escape")


@pytest.mark.parametrize("fragment", ["@2.5", "@900", "@.", ""])
def test_a_link_opens_a_moment(visit: Visit, url: str, first: str, fragment: str) -> None:
    page = visit(f"{url}{first}{fragment}")
    shown = {"@2.5": 2.5, "@900": 13.841, "@.": 0, "": 13.551}[fragment]
    assert time(page) == shown
    page.evaluate("location.hash = '#wait-0'")
    page.wait_for_selector("#detail-title:has-text('met')")


def test_a_test_without_a_recording_has_no_player(visit: Visit, tmp_path: Path) -> None:
    write_report(night(240), tmp_path / "report.html")
    page = visit(f"{(tmp_path / 'report.html').as_uri()}#play-0")
    assert page.locator(".play").count() == 0
    assert page.evaluate("document.querySelector('dialog[open]')") is None


def test_each_attempt_is_played(visit: Visit, tmp_path: Path) -> None:
    report = night(240)
    add_playbacks(report)
    failed = next(test for test in report.tests if test.outcome == "failed")
    again = TestRecord(
        "again", failed.run, failed.test, "failed", failed.ended + 20, 14.0, worker=failed.worker
    )
    assert failed.playback is not None
    again.playback = failed.playback
    failed.outcome = "rerun"
    report.tests.append(again)
    write_report(report, tmp_path / "report.html")
    page = visit((tmp_path / "report.html").as_uri())
    plays = page.locator("#failures .card:has-text('[40]') .play").all_inner_texts()
    assert plays == ["▶ Play attempt 1 (rerun)", "▶ Play attempt 2 (failed)"]


def test_what_is_left_out_is_said(visit: Visit, tmp_path: Path) -> None:
    report = night(240)
    add_playbacks(report)
    played = next(test.playback for test in report.tests if test.playback is not None)
    played.started -= 5.0
    played.begin = 1.0
    played.left_out = {"changes": 7, "events": 2, "logs": 1200}
    played.kinds[0].left_out = 4900
    write_report(report, tmp_path / "report.html")
    page = visit((tmp_path / "report.html").as_uri())
    page.locator("#failures .play").first.click()
    text = page.inner_text(".player")
    assert "The first 1.00 s, with 7 changes, are left out here." in text
    assert "pods - and 4,900 more, left out: their states are less rare" in text
    assert "and 3 before" in text
    assert "1,200 lines before" in text
    press(page, "Home")
    assert time(page) == 1
    assert "No wait has begun." in page.inner_text(".beside")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390, 320], ids=["desk", "phone", "small"])
def test_the_player_is_legible(visit: Visit, url: str, width: int, dark: bool) -> None:
    """Light and dark, wide and narrow: no overflow, sufficient contrast."""
    page = visit(url, width=width, height=760, dark=dark)
    page.locator("#failures .play").first.click()
    press(page, "p")
    await_frames(page)
    scrolled, shown = page.evaluate(
        "(d => [d.scrollWidth, d.clientWidth])(document.querySelector('.player'))"
    )
    assert scrolled == shown
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    poor: Any = page.evaluate(CONTRAST.replace("#page *", ".player *"))
    assert poor == []
    # The cells of a narrow page have their column's name.
    head = page.evaluate(
        "getComputedStyle(document.querySelector('.scene td'), '::before').content"
    )
    assert head == ("none" if width > 760 else '"Ready "')
    drawn = page.evaluate("""() => {
        const track = document.querySelector('.transport canvas');
        const {data} = track.getContext('2d').getImageData(0, 0, track.width, track.height);
        return data.some((each) => each > 0);
    }""")
    assert drawn
