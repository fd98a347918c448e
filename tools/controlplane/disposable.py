"""A disposable control plane of one test; its servers may be killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tools.controlplane.cluster import State
from tools.controlplane.polling import poll_until
from tools.controlplane.processes import end_with_parent, environment

if TYPE_CHECKING:
    from collections.abc import Iterator

_PATIENCE = 60.0


class DisposableControlPlane:
    """A running control plane without nodes.

    Args:
        folder: its folder, with its state file.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of the cluster."""
        return Path(self._state().kubeconfig)

    def kill(self, server: str) -> None:
        """End a server with SIGKILL; its supervisor starts it again."""
        (found, *_) = self._state().processes[server]
        assert found.end(signal.SIGKILL)

    def _state(self) -> State:
        state = State.read(self._folder)
        assert state is not None
        return state


@contextmanager
def run_control_plane(folder: Path) -> Iterator[DisposableControlPlane]:
    """Yield a control plane without nodes that ends with the block."""
    command = [sys.executable, "-m", "tools.controlplane", "serve", f"--dir={folder}", "--no-node"]
    server = subprocess.Popen(
        command,
        cwd=Path(__file__).resolve().parents[2],
        env=environment(),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=end_with_parent(signal.SIGTERM),
    )
    try:
        assert poll_until(lambda: _is_ready(folder) or server.poll() is not None, _PATIENCE)
        assert server.poll() is None, server.communicate()[1]
        yield DisposableControlPlane(folder)
    finally:
        server.terminate()
        server.communicate(timeout=_PATIENCE)


def _is_ready(folder: Path) -> bool:
    state = State.read(folder)
    return state is not None and state.ready
