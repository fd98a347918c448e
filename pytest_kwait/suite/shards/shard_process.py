"""The program of a shard in a pod: runs pytest, and puts what it has to show into the pod's log.

Its arguments are pytest's. It ends with status 0 once the results are written: a status of its own
would make the cluster run the shard again, and failed tests are no trouble of the cluster.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_kwait.suite.shards.pod import JUNIT, REPORT, pack_results

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run pytest and return 0.

    Args:
        argv: pytest's arguments; those of the process by default.
    """
    given = sys.argv[1:] if argv is None else argv
    # A shell's background has it ignored, and what it starts inherits that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="kwait-shard-") as folder:
        made = [Path(folder) / JUNIT, Path(folder) / REPORT]
        options = [f"--junitxml={made[0]}", f"--kwait-report={made[1]}"]
        process = subprocess.Popen(  # noqa: S603 - whoever gives the arguments runs the suite
            [sys.executable, "-m", "pytest", *given, *options]
        )

        def interrupt(_number: int, _frame: FrameType | None) -> None:
            # A pod that is deleted: pytest ends its fixtures on Ctrl-C, and on nothing else.
            process.send_signal(signal.SIGINT)

        before = signal.signal(signal.SIGTERM, interrupt)
        try:
            status = process.wait()
        finally:
            signal.signal(signal.SIGTERM, before)
        files = {path.name: path.read_bytes() for path in made if path.exists()}
    sys.stdout.write(pack_results(status, files))
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
