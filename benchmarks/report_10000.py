"""The report of 10,000 waits in headless Chromium: bars 5 MB, and twice a static table's time.

Run it as `python -m benchmarks.report_10000 [ROUNDS]`; it needs Playwright and a browser.
Peer: a plain table of the same waits, with a row for each, scrolled to its end. The report is laid
out with its timeline, filtered by a word, scrolled to its end, and a wait is opened. Both are
reloaded in each round.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.pairs import measure, seconds
from benchmarks.rows import CannotMeasureError, Row, run_alone
from pytest_kwait.suite.report.files import render_page
from tools.browser import MISSING, find_browser, launch_browser
from tools.sample_reports import night, static_table

BAR = 2.0
BYTES = 5_000_000
WAITS = 10_000

_SHOWN = "new Promise(done => requestAnimationFrame(() => setTimeout(done)))"
_TABLE = f"""(async () => {{
  scrollTo(0, document.documentElement.scrollHeight);
  await {_SHOWN};
  return document.querySelectorAll('tr').length;
}})()"""
_REPORT = f"""(async () => {{
  await {_SHOWN};
  const input = document.querySelector('.filters input');
  input.value = 'deployment';
  input.dispatchEvent(new Event('input'));
  const scroll = document.querySelector('.scroll');
  scroll.scrollTop = scroll.scrollHeight;
  await {_SHOWN};
  scroll.querySelector('.rows .row:last-child').click();
  await {_SHOWN};
  return document.querySelector('dialog[open] dl').children.length;
}})()"""


def measure_rows(rounds: int = 9) -> list[Row]:
    """Open both pages in turns.

    Raises:
        CannotMeasureError: there is no browser.
    """
    path = find_browser()
    if path is None:
        raise CannotMeasureError(MISSING)
    # A failed test made no second wait.
    report = night(WAITS + 300, shards=4, workers=4)
    report.waits = report.waits[:WAITS]
    with tempfile.TemporaryDirectory() as folder:
        ours, peer = Path(folder, "ours.html"), Path(folder, "peer.html")
        ours.write_text(render_page(report), encoding="utf-8")
        peer.write_text(static_table(report), encoding="utf-8")
        size = ours.stat().st_size

        with launch_browser(path) as browser:

            def opened(file: Path, use: str, least: int) -> float:
                page = browser.new_page()

                def once() -> None:
                    page.goto(file.as_uri())
                    assert page.evaluate(use) >= least

                taken = seconds(once)
                page.close()
                return taken

            pairs = measure(
                lambda: opened(ours, _REPORT, 8), lambda: opened(peer, _TABLE, WAITS), rounds
            )
    print(f"{WAITS} waits")
    print(pairs.lines("report: opened, filtered, scrolled, used", "static table: opened, scrolled"))
    return [
        Row("report opened and used, of a static table's time", pairs.median_ratio, BAR),
        Row("size of the report", size / 1e6, BYTES / 1e6, "MB"),
    ]


if __name__ == "__main__":
    run_alone(measure_rows)
