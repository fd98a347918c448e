"""One run of the suite on an embedded cluster of its own."""

from __future__ import annotations

import re
import signal
import subprocess
from typing import TYPE_CHECKING

from pytest_kwait.clusters.images import read_image_mappings
from pytest_kwait.clusters.provider import EmbeddedProvider
from pytest_kwait.simulator.protocol.options import EmbeddedOptions
from tools.controlplane.errors import BrokenError
from tools.controlplane.processes import end_with_parent
from tools.upstream_suite.images import UNPULLABLE, make_mappings
from tools.upstream_suite.results import Result, read_report

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tools.upstream_suite.assets import Programs

_SPECIAL = re.compile(r"[^A-Za-z0-9_ ]")
_SKIPPED = r"\[Serial\]|\[Disruptive\]"
_NODES = 2


def make_focus(names: Sequence[str]) -> list[str]:
    """Return ginkgo's patterns of exactly these tests."""
    return [_SPECIAL.sub(lambda found: "\\" + found.group(), name) + "$" for name in names]


def list_tests(programs: Programs, focus: Sequence[str], folder: Path) -> list[str]:
    """Return the names of the tests that match one of some patterns."""
    report = folder / "list.json"
    command = [str(programs.folder / "e2e.test"), "--ginkgo.dry-run", "--ginkgo.silence-skips"]
    command += [f"--ginkgo.focus={one}" for one in focus]
    command += [f"--ginkgo.skip={_SKIPPED}", f"--ginkgo.json-report={report}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if not report.is_file():
        raise BrokenError(f"e2e.test listed no tests:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return [result.name for result in read_report(report)]


def run_tests(
    programs: Programs, focus: Sequence[str], folder: Path, *, processes: int, minutes: float
) -> list[Result]:
    """Run the tests that match one of some patterns; return those that have run.

    Args:
        folder: takes ginkgo's report and output.
        processes: how many tests run at a time.
        minutes: ginkgo's limit for all of them.

    Raises:
        BrokenError: ginkgo wrote no report.
        ClusterError: the cluster did not start.
    """
    report = folder / "report.json"
    report.unlink(missing_ok=True)
    cluster = EmbeddedProvider(EmbeddedOptions(nodes=_NODES)).start()
    try:
        for mapping in read_image_mappings(make_mappings(programs), "make_mappings"):
            cluster.images.add(mapping)
        for image, why in UNPULLABLE.items():
            cluster.faults.fail_pulls(why, image=image, namespace="")
        command = [
            str(programs.folder / "ginkgo"), "run", f"--procs={processes}",
            f"--timeout={max(int(minutes * 60), 1)}s", "--keep-going", "--silence-skips",
            "--no-color", *(f"--focus={one}" for one in focus), f"--skip={_SKIPPED}",
            f"--output-dir={folder}", f"--json-report={report.name}",
            str(programs.folder / "e2e.test"), "--",
            f"--kubeconfig={cluster.kubeconfig}", "--provider=skeleton",
            f"--kubectl-path={programs.controlplane / 'kubectl'}",
            "--disable-log-dump", "--dump-logs-on-failure=false", "--allowed-not-ready-nodes=-1",
        ]  # fmt: skip
        with (folder / "ginkgo.log").open("w") as log:
            subprocess.run(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
                preexec_fn=end_with_parent(signal.SIGTERM),
            )
    finally:
        cluster.images.close()
        cluster.stop()
    if not report.is_file():
        said = (folder / "ginkgo.log").read_text()[-3000:]
        raise BrokenError(f"ginkgo wrote no report:\n{said}")
    return read_report(report)
