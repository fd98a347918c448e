"""Regenerate the pictures of docs/images: `python -m tools.pictures`.

The terminal pictures show real runs on the embedded cluster. Needs a headless browser
(`python -m tools.browser` installs one).
"""

from __future__ import annotations

import fcntl
import html
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
from tools.browser import MISSING, Browser, find_browser
from tools.sample_reports import night
from tools.small_png import shrink

if TYPE_CHECKING:
    from tools.browser import Page

FOLDER = Path(__file__).parents[1] / "docs" / "images"

COLUMNS = 100
ROWS = 60
LIMIT = 150_000
"""Bytes that a picture has at most."""

SUITE = '''
import pytest

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: sleepers}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: main, image: "registry.invalid/sleeper:latst"}
"""


@pytest.mark.manifests(JOB)
def test_workers_start(kwait, wait_for_job_pods_running):
    wait_for_job_pods_running("sleepers", 1)
'''

# Makes room below the cursor and writes one line there; see pytest_kwait/plugin/live_status.py.
_LIVE = re.compile(r"\x1bD\x1b\[A\x1b7\r+\n\x1b\[2K(.*?)\x1b8")
_COLOUR = re.compile(r"\x1b\[([\d;]*)m")
_COLOURS = {
    "31": "#ff7b72",
    "32": "#7ee787",
    "33": "#e3b341",
    "34": "#79c0ff",
    "35": "#d2a8ff",
    "36": "#76e3ea",
    "90": "#8b949e",
    "91": "#ffa198",
    "92": "#7ee787",
    "94": "#a5d6ff",
    "96": "#76e3ea",
}
_PAGE = """<!doctype html><meta charset="utf-8"><style>
body { margin: 0; background: #0d1117; color: #e6edf3; display: inline-block; }
pre {
  margin: 0; padding: 14px 18px; font: 13px/1.4 "DejaVu Sans Mono", monospace;
  width: 100.5ch; white-space: pre-wrap; word-break: break-all;
}
</style><pre>%s</pre>
"""


def terminal_run() -> str:
    """Return all that a terminal gets while the suite runs in it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "test_workers.py").write_text(SUITE)
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
            [sys.executable, "-P", "-m", "pytest", "--kwait-run-id=demo", "-p", "no:cacheprovider"],
            cwd=folder,
            env=environment,
            stdin=far,
            stdout=far,
            stderr=far,
        )
        os.close(far)
        said = b"".join(_read(near))
        process.wait()
        os.close(near)
    text = said.decode()
    return re.sub(r"\b(plugins|rootdir|configfile|platform)[: ].*\r\n", "", text)


def _read(descriptor: int) -> list[bytes]:
    parts: list[bytes] = []
    while True:
        try:
            part = os.read(descriptor, 65536)
        except OSError:
            # All who could write are gone.
            return parts
        if not part:
            return parts
        parts.append(part)


def screens(said: str) -> tuple[str, str]:
    """Return what was on the terminal while it last waited, and what is at the end."""
    drawn = list(_LIVE.finditer(said))
    last = drawn[-1]
    return _plain(said[: last.start()]) + "\n" + last[1], _plain(said)


def _plain(said: str) -> str:
    return _LIVE.sub("", said).replace("\x1b[J", "").replace("\r", "").strip("\n")


def as_html(screen: str) -> str:
    """Return a screen as a page."""
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
            elif code in _COLOURS:
                style += f"color:{_COLOURS[code]};"
    return _PAGE % "".join(pieces)


def save(page: Page, name: str) -> None:
    """Take a picture of what is to be seen."""
    path = FOLDER / f"{name}.png"
    page.screenshot(path)
    path.write_bytes(shrink(path.read_bytes()))
    if path.stat().st_size > LIMIT:
        raise SystemExit(f"{path} is larger than {LIMIT} bytes")


def take_report(browser: Browser, folder: Path) -> None:
    """Take the pictures of the report page."""
    file = folder / "report.html"
    report = night(240)
    for wait in report.waits:
        for log in wait.evidence.get("logs", ()):
            # There to show that the page escapes it, which is nothing to look at.
            log["lines"] = ["resolving workers: 2 of 3 have started"]
    write_report(report, file)
    page = browser.open(file.as_uri(), width=1000, height=640)
    save(page, "report-light")
    page.media(dark=True)
    save(page, "report-dark")
    page.media(dark=False)
    page.read("document.querySelector('#timeline').scrollIntoView({block: 'center'})")
    save(page, "report-timeline")
    page.media(dark=True)
    page.click(".failure .entry")
    save(page, "report-wait")
    page.press("Escape")
    page.resize(390, 760)
    page.read("document.activeElement.blur(), scrollTo(0, 0)")
    save(page, "report-phone")
    page.close()


def take_terminal(browser: Browser, folder: Path) -> None:
    """Take the pictures of a terminal."""
    for name, screen in zip(
        ("terminal-live", "terminal-failure"), screens(terminal_run()), strict=True
    ):
        file = folder / f"{name}.html"
        file.write_text(as_html(screen))
        page = browser.open(file.as_uri(), width=900, height=400)
        width, height = page.read(
            "(r => [r.width, r.height])(document.querySelector('pre').getBoundingClientRect())"
        )
        page.resize(round(width), round(height))
        save(page, name)
        page.close()


def main() -> None:
    """Take all of them."""
    program = find_browser()
    if program is None:
        raise SystemExit(MISSING)
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "browser").mkdir()
        browser = Browser(program, folder / "browser")
        try:
            take_report(browser, folder)
            take_terminal(browser, folder)
        finally:
            browser.close()


if __name__ == "__main__":
    main()
