"""Regenerate the pictures of docs/images: `python -m tools.pictures [NAME ...]`.

The names are `report`, `player` and `terminal`; all by default. The terminal pictures show a real
run on the embedded cluster, whose time is that of its wait: on a busy machine none are taken. Needs
the dependency group `browser`, and a headless browser (`python -m tools.browser` installs one).
"""

from __future__ import annotations

import argparse
import fcntl
import html
import io
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_kwait.suite.report.files import write_report
from tools.browser import MISSING, find_browser, launch_browser
from tools.sample_recordings import add_playbacks
from tools.sample_reports import night

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Browser, Page, ViewportSize

FOLDER = Path(__file__).parents[1] / "docs" / "images"

COLUMNS = 80
ROWS = 60
LIMIT = 150_000
"""The maximum size of a picture in bytes."""

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: sleepers}
spec:
  parallelism: 3
  completions: 3
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: main, image: "registry.invalid/sleeper:latst"}
"""
SUITE = """
from pytest_kwait import Kwait


def test_workers_start(kwait: Kwait) -> None:
    kwait.apply("sleepers.yaml")
    pods = kwait.wait_for_job_pods_running("sleepers", 3)
    assert all(pod["status"]["podIP"] for pod in pods)
"""

_TRIES = 3
MOST_BESIDES = 4.0
"""Seconds that a pictured run may take besides its wait, on a quiet machine: for the cluster."""
_RUN_SECONDS = re.compile(r"1 failed\S* in ([\d.]+)s")
_WAIT_SECONDS = re.compile(r"kwait: waited ([\d.]+)s in 1 wait")

# Makes room below the cursor and writes one line there; see pytest_kwait/plugin/live_status.py.
_LIVE = re.compile(r"\x1bD\x1b\[A\x1b7\r+\n\x1b\[2K(.*?)\x1b8")
_COLOUR = re.compile(r"\x1b\[([\d;]*)m")
_CODES = ("31", "32", "33", "34", "35", "36", "90", "91", "92", "94", "96")
_DARK = (
    "#0d1117", "#e6edf3",
    "#ff7b72", "#7ee787", "#e3b341", "#79c0ff", "#d2a8ff", "#76e3ea",
    "#8b949e", "#ffa198", "#7ee787", "#a5d6ff", "#76e3ea",
)  # fmt: skip
"""Background, text, and the colours of the codes."""
_LIGHT = (
    "#ffffff", "#1f2328",
    "#b3261e", "#116329", "#7d4e00", "#0550ae", "#6639ba", "#1b6b72",
    "#59636e", "#a40e26", "#116329", "#0550ae", "#1b6b72",
)  # fmt: skip
_PAGE = """<!doctype html><meta charset="utf-8"><style>
body { margin: 0; background: %s; color: %s; display: inline-block; }
pre {
  margin: 0; padding: 14px 18px; font: 13px/1.4 "DejaVu Sans Mono", monospace;
  width: %.1fch; white-space: pre-wrap; word-break: break-all;
}
</style><pre>%s</pre>
"""


def take_quiet_run(run: Callable[[], str]) -> str:
    """Return the output of the run that took the least besides its wait, of some.

    Raises:
        SystemExit: each took long: the machine is busy.
    """
    run()  # what it reads is in memory then
    outputs = sorted((run() for _ in range(_TRIES)), key=seconds_besides_wait)
    besides = seconds_besides_wait(outputs[0])
    if besides > MOST_BESIDES:
        raise SystemExit(
            f"the run took {besides:.1f}s besides its wait, and may take {MOST_BESIDES:g}s: "
            "take pictures of a terminal on a quiet machine"
        )
    return outputs[0]


def seconds_besides_wait(output: str) -> float:
    """Return the seconds of a run with one wait that were not the wait's."""
    text = _COLOUR.sub("", output)
    ran, waited = _RUN_SECONDS.search(text), _WAIT_SECONDS.search(text)
    if ran is None or waited is None:
        raise SystemExit(f"the run has no failed test with one wait:\n{text}")
    return float(ran[1]) - float(waited[1])


def run_in_terminal() -> str:
    """Return the output of the suite to a terminal."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "test_workers.py").write_text(SUITE)
        (folder / "sleepers.yaml").write_text(JOB)
        (folder / "pytest.ini").write_text("[pytest]\n")
        near, far = pty.openpty()
        fcntl.ioctl(far, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        environment = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("KWAIT_", "PYTEST_", "CI", "BUILD_NUMBER", "NO_COLOR"))
        } | {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
        root = Path(__file__).parents[1]
        environment["PYTHONPATH"] = os.pathsep.join(
            filter(None, (str(root), environment.get("PYTHONPATH")))
        )
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "pytest", "-p", "no:cacheprovider"],
            cwd=folder,
            env=environment,
            stdin=far,
            stdout=far,
            stderr=far,
        )
        os.close(far)
        output = b"".join(_read(near))
        process.wait()
        os.close(near)
    text = output.decode()
    return re.sub(r"\b(plugins|rootdir|configfile|platform)[: ].*\r\n", "", text)


def _read(descriptor: int) -> list[bytes]:
    parts: list[bytes] = []
    while True:
        try:
            part = os.read(descriptor, 65536)
        except OSError:
            # All writers have closed the terminal.
            return parts
        if not part:
            return parts
        parts.append(part)


def screens(output: str) -> tuple[str, str]:
    """Return the terminal's screen during the last wait, and at the end."""
    drawn = list(_LIVE.finditer(output))
    last = drawn[-1]
    return _plain(output[: last.start()]) + "\n" + last[1], _plain(output)


def _plain(output: str) -> str:
    lines = _LIVE.sub("", output).replace("\x1b[J", "").replace("\r\n", "\n")
    # What follows a carriage return overwrites the line.
    return re.sub(r"[^\n]*\r(?=[^\n])", "", lines).replace("\r", "").strip("\n")


def as_html(screen: str, scheme: tuple[str, ...]) -> str:
    """Return a screen as a page in a colour scheme."""
    background, foreground, *colours = scheme
    by_code = dict(zip(_CODES, colours, strict=True))
    pieces: list[str] = []
    style = ""
    parts: list[str] = _COLOUR.split(screen)
    for text, codes in zip(parts[::2], chain(parts[1::2], [""]), strict=True):
        shown = html.escape(text)
        pieces.append(f'<span style="{style}">{shown}</span>' if style and text else shown)
        for code in codes.split(";"):
            if code in ("", "0", "39", "39;49;00"):
                style = ""
            elif code == "1":
                style += "font-weight:bold;"
            elif code in by_code:
                style += f"color:{by_code[code]};"
    return _PAGE % (background, foreground, COLUMNS + 0.5, "".join(pieces))


def save(page: Page, name: str) -> None:
    """Write a screenshot of the viewport with a palette of 256 colours."""
    # Of the group `browser`, which tests of the rest do not have.
    from PIL import Image

    path = FOLDER / f"{name}.png"
    with Image.open(io.BytesIO(page.screenshot())) as image:
        palette = image.convert("RGB").quantize(256, dither=Image.Dither.NONE)
        palette.save(path, optimize=True)
    if path.stat().st_size > LIMIT:
        raise SystemExit(f"{path} is larger than {LIMIT} bytes")


def open_page(browser: Browser, file: Path, width: int, height: int) -> Page:
    """Open a file in a page of that size, without animations."""
    viewport: ViewportSize = {"width": width, "height": height}
    page = browser.new_page(viewport=viewport, is_mobile=width < 600, reduced_motion="reduce")
    page.goto(file.as_uri())
    return page


def take_report(browser: Browser, folder: Path) -> None:
    """Take the pictures of the report page."""
    file = folder / "report.html"
    report = night(240)
    for wait in report.waits:
        for log in wait.evidence.get("logs", ()):
            # The sample has markup here, to show that the page escapes it.
            log["lines"] = ["resolving workers: 2 of 3 have started"]
    write_report(report, file)
    page = open_page(browser, file, 1000, 640)
    save(page, "report-light")
    page.emulate_media(color_scheme="dark")
    save(page, "report-dark")
    page.emulate_media(color_scheme="light")
    page.evaluate("document.querySelector('#timeline').scrollIntoView({block: 'center'})")
    save(page, "report-timeline")
    page.emulate_media(color_scheme="dark")
    page.click(".failure .entry")
    save(page, "report-wait")
    page.close()
    page = open_page(browser, file, 390, 760)
    page.emulate_media(color_scheme="dark")
    save(page, "report-phone")
    page.close()


def take_player(browser: Browser, folder: Path) -> None:
    """Take the pictures of a recording on the report page, some changes before its failure."""
    file = folder / "recorded.html"
    report = night(240, steps=True)
    add_playbacks(report)
    write_report(report, file)
    for name, width, height, dark in (
        ("report-player", 1000, 700, False),
        ("report-player-phone", 390, 760, True),
    ):
        page = open_page(browser, file, width, height)
        page.emulate_media(color_scheme="dark" if dark else "light")
        page.locator(".play").first.click()
        for _ in range(3):
            page.keyboard.press("p")
        save(page, name)
        page.close()


def take_terminal(browser: Browser, folder: Path) -> None:
    """Take the pictures of a terminal."""
    live, failure = screens(take_quiet_run(run_in_terminal))
    for name, screen, scheme in (
        ("terminal-live", live, _DARK),
        ("terminal-failure", failure, _DARK),
        ("terminal-failure-light", failure, _LIGHT),
    ):
        file = folder / f"{name}.html"
        file.write_text(as_html(screen, scheme))
        page = open_page(browser, file, 900, 400)
        width, height = page.evaluate(
            "(r => [r.width, r.height])(document.querySelector('pre').getBoundingClientRect())"
        )
        page.set_viewport_size({"width": round(width), "height": round(height)})
        save(page, name)
        page.close()


_TAKERS = {"report": take_report, "player": take_player, "terminal": take_terminal}


def main() -> None:
    """Take the named pictures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *_TAKERS])
    names = parser.parse_args().names or list(_TAKERS)
    program = find_browser()
    if program is None:
        raise SystemExit(MISSING)
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name, launch_browser(program) as browser:
        for taken in names:
            _TAKERS[taken](browser, Path(name))


if __name__ == "__main__":
    main()
