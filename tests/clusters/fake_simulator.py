"""A process with the flags and pipes of the embedded cluster, and nothing behind them.

Run as a script: the first argument says how to behave, the rest is what the real one is given.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PREFIX = "fake simulator: "
KUBECONFIG = """\
current-context: embedded
clusters: [{name: embedded, cluster: {server: "https://127.0.0.1:6443"}}]
users: [{name: embedded, user: {token: secret}}]
contexts: [{name: embedded, context: {cluster: embedded, user: embedded}}]
"""


def read_given(log: str) -> dict[str, Any]:
    """Return the options in the output of this program."""
    import json  # not by the program, which is to start fast

    given: dict[str, Any] = json.JSONDecoder().raw_decode(log, len(_PREFIX))[0]
    return given


def main(behaviour: str, *arguments: str) -> int:
    flags = dict(zip(arguments[::2], arguments[1::2], strict=True))
    with os.fdopen(int(flags["--options-fd"])) as options:
        print(_PREFIX + options.read(), *arguments, flush=True)
    if behaviour == "fails":
        print("OSError: [Errno 98] Address already in use", file=sys.stderr)
        return 3
    if behaviour == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    with open(flags["--kubeconfig"], "w", encoding="ascii") as file:  # noqa: PTH123 - starts faster
        file.write(KUBECONFIG)
    if behaviour == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if behaviour == "mute":
        signal.pause()
    os.write(int(flags["--ready-fd"]), b"ready\n")
    os.close(int(flags["--ready-fd"]))
    if behaviour == "crashes":
        print("Traceback: it crashed", file=sys.stderr)
        return 4
    if "--owner-fd" in flags and behaviour == "ready":
        os.read(int(flags["--owner-fd"]), 1)
        return 0
    while True:
        signal.pause()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
