"""The headless browser of this suite: found on the machine, or installed from Debian's packages.

Debian has Chromium without windows as `chromium-headless-shell`, which is small; every other
Chromium or Chrome does too. `python3 -m tools.program` installs it where there is none.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

__all__ = ["MISSING", "find_browser", "install"]

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
UNAVAILABLE = 69


def find_browser() -> str | None:
    """Return the path of a browser; None if there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def install() -> int:
    """Install Debian's browser where there is none; return the status of that."""
    if find_browser():
        return 0
    if shutil.which("apt-get") is None:
        print(MISSING, file=sys.stderr)
        return UNAVAILABLE
    # Somebody else may be installing at the same time.
    patient = ("apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=300")
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (("update",), ("install", "--no-install-recommends", PACKAGE)):
        done = subprocess.run([*patient, *arguments], env=environ, check=False)
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(install())
