"""A headless Chromium for the report page, driven by Playwright.

The browser is found on the machine (Chromium or Chrome), or installed from Debian's packages by
`python3 -m tools.browser`, which needs nothing but the standard library.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

NAMES = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
)
PACKAGE = "chromium-headless-shell"
MISSING = (
    f"no headless browser on this machine: `apt-get install {PACKAGE}`, or have one of "
    f"{', '.join(NAMES)} on the PATH"
)
EX_UNAVAILABLE = 69


def find_browser() -> str | None:
    """Return the path of a browser; None if there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def install_browser() -> int:
    """Install Debian's browser unless one is present; return an exit code."""
    if find_browser():
        return 0
    if shutil.which("apt-get") is None:
        print(MISSING, file=sys.stderr)
        return EX_UNAVAILABLE
    # Another process may hold apt's lock.
    apt = ("apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=300")
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (("update",), ("install", "--no-install-recommends", PACKAGE)):
        done = subprocess.run([*apt, *arguments], env=environ, check=False)
        if done.returncode:
            return done.returncode
    return 0


@contextmanager
def launch_browser(path: str) -> Iterator[Browser]:
    """Run the browser at `path`; it ends with the block."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # A container has no sandbox and little shared memory.
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        )
        try:
            yield browser
        finally:
            browser.close()


if __name__ == "__main__":
    sys.exit(install_browser())
