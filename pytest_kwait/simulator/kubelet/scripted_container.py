"""A container that does what a script says instead of its command."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kwait.simulator.container_scripts import EMPTY, Script
from pytest_kwait.simulator.kubelet.runtime.containers import Container

if TYPE_CHECKING:
    from pytest_kwait.simulator.busybox.os.files import FileSystem
    from pytest_kwait.simulator.clock import Timer

__all__ = ["ScriptedContainer"]


@dataclass
class ScriptedContainer(Container):
    """One instance of it; it ends with 0 when it is asked to.

    Args:
        script: what it does.
    """

    script: Script = EMPTY
    _end_timer: Timer | None = None

    def start(self, argv: list[str], env: dict[str, str], files: FileSystem, hostname: str) -> str:
        """Begin what the script says; its own command is not looked at."""
        del argv
        failure = super().start(["sleep", "inf"], env, files, hostname)
        self._graceful = True
        for line in self.script.log or ():
            self.write(1, f"{line}\n".encode())
        code = self.script.exit or 0
        # A script that names an exit code alone ends at once.
        seconds = self.script.run
        if seconds is None:
            seconds = 0.0 if self.script.exit is not None else math.inf
        if seconds != math.inf:
            self._end_timer = self.clock.call_later(
                seconds, self.finish, code, self.script.reason or "", self.script.message or "",
                scaled=False,
            )  # fmt: skip
        return failure
