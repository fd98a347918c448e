"""Compare the simulated shell with the machine's busybox, script by script.

`python -m tests.simulator.busybox.shell.busybox_oracle SECONDS [SEED]` runs generated scripts for
longer than the tests do. It prints scripts with different results, and the seed to repeat them.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings

from pytest_kwait.clock import Deadline
from pytest_kwait.simulator.busybox.applets import APPLETS, ENDLESS_APPLETS
from tests.simulator.busybox.shell.generated_scripts import generate_scripts
from tests.simulator.runtimes.interpreted.container_harness import ContainerHarness, take_output

# The supported versions; others may have different messages.
_KNOWN = ("1.35", "1.36", "1.37")
_SECONDS = 30.0


@dataclass(frozen=True)
class Outcome:
    """The result of a script."""

    code: int | None
    out: str
    err: str


def find_missing_programs() -> str:
    """Return why no comparison is possible; empty if one is."""
    path = shutil.which("busybox")
    if path is None:
        return "no busybox on this machine: `apt-get install busybox`"
    told = subprocess.run([path], capture_output=True, text=True, check=False)
    found = re.match(r"BusyBox v(\d+\.\d+)", told.stdout)
    version = found[1] if found else "unknown"
    if version not in _KNOWN:
        return f"busybox {version} is none of {', '.join(_KNOWN)}"
    return ""


class BusyboxOracle:
    """The machine's busybox.

    Args:
        folder: an empty folder for its programs and the scripts' files.
    """

    def __init__(self, folder: Path) -> None:
        busybox = shutil.which("busybox")
        if busybox is None:
            raise RuntimeError(find_missing_programs())
        self._programs = folder / "bin"
        self._programs.mkdir()
        for name in {"ash", "sh", *APPLETS} - ENDLESS_APPLETS:
            (self._programs / name).symlink_to(busybox)
        self._folder = folder

    def run(self, script: str) -> Outcome:
        """Run a script in an empty folder."""
        with tempfile.TemporaryDirectory(dir=self._folder) as place:
            done = subprocess.run(
                ["sh", "-c", script], executable=self._programs / "sh", cwd=place,
                env={"PATH": str(self._programs), "HOME": "/root"}, stdin=subprocess.DEVNULL,
                capture_output=True, timeout=_SECONDS, check=False,
            )  # fmt: skip
        code = done.returncode if done.returncode >= 0 else 128 - done.returncode
        return Outcome(code, _text(done.stdout), _text(done.stderr))


def run_simulated(script: str) -> Outcome:
    """Run a script in an empty folder of a container."""
    harness = ContainerHarness()
    harness.sh("mkdir /place")
    session = harness.run("sh", "-c", f"cd /place;{script}")
    harness.clock.advance(_SECONDS)
    if session.output.code is None:
        session.stop()
    written = take_output(session)
    return Outcome(session.output.code, _text(written[1]), _text(written[2]))


def _text(data: bytes) -> str:
    return data.decode(errors="surrogateescape")


class _Difference(Exception):
    """A script with two different results."""


def _compare_generated(seconds: float, number: int) -> int:
    """Compare generated scripts for some time; return the number of differences."""
    deadline = Deadline.after(seconds)
    differing = 0
    with tempfile.TemporaryDirectory() as folder:
        judge = BusyboxOracle(Path(folder))

        def compare(script: str) -> None:
            theirs, ours = judge.run(script), run_simulated(script)
            if theirs != ours:
                raise _Difference(f"{script}\nbusybox: {theirs}\nours:    {ours}")

        while not deadline.expired:
            search = seed(number)(_THOROUGH(given(script=generate_scripts)(compare)))
            try:
                search()
            except _Difference as found:
                differing += 1
                print(f"--- seed {number}\n{found}", flush=True)
            number += 1
    return differing


_THOROUGH = settings(
    max_examples=100,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)

if __name__ == "__main__":
    why = find_missing_programs()
    if why:
        sys.exit(why)
    found = _compare_generated(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    print(f"{found} differ")
    sys.exit(bool(found))
