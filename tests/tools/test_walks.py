from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tools import walks

if TYPE_CHECKING:
    from collections.abc import Sequence


class InterruptedSuite:
    """A process whose first `wait` is interrupted, as by the limit of a test."""

    def __init__(self, command: Sequence[str], cwd: str, **_: Any) -> None:
        self.folder = Path(cwd)
        self.calls: list[object] = []
        STARTED.append(self)

    def wait(self, timeout: float | None = None) -> int:
        self.calls.append("wait")
        if timeout is None:
            pytest.fail("Timeout")
        assert self.folder.exists()
        return 0

    def send_signal(self, number: int) -> None:
        self.calls.append(signal.Signals(number).name)


STARTED: list[InterruptedSuite] = []


def test_the_folder_of_an_interrupted_suite_is_removed_after_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subprocess, "Popen", InterruptedSuite)
    with pytest.raises(pytest.fail.Exception, match="Timeout"):
        walks.WALKS["marker wait"](Path(sys.prefix))
    suite = STARTED.pop()
    assert suite.calls == ["wait", "SIGINT", "wait"]
    assert not suite.folder.exists()
