"""A kube-scheduler that reports feasible nodes and scores, and binds no pods."""

from __future__ import annotations

import json
import re
import threading
from collections import defaultdict
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from tools.controlplane.processes import Component

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAME = "referee"
"""The `schedulerName` of its pods."""

_SCORE = re.compile(
    r'"Plugin scored node for pod" .*?pod="[^/"]*/([^"]*)" plugin="([^"]*)" node="([^"]*)" '
    r"score=(-?\d+)"
)


class KubeScheduler:
    """The decisions of a kube-scheduler.

    Args:
        log: its log, which has the scores.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        self.feasible: dict[str, list[str]] = {}
        """The nodes that passed all filters, by the pod's name; pods without any are absent."""

    def scores(self) -> dict[str, dict[str, dict[str, int]]]:
        """Return the weighted scores by pod, node and plugin, of pods with several nodes."""
        found: dict[str, dict[str, dict[str, int]]] = defaultdict(lambda: defaultdict(dict))
        for pod, plugin, node, score in _SCORE.findall(self._log.read_text(errors="replace")):
            found[pod][node][plugin] = int(score)
        return found


@contextmanager
def run_kube_scheduler(program: Path, kubeconfig: Path, folder: Path) -> Iterator[KubeScheduler]:
    """Yield a kube-scheduler that ends with the block.

    This process is its extender, which filters the feasible nodes and binds.
    """
    folder.mkdir(parents=True, exist_ok=True)
    referee = KubeScheduler(folder / "kube-scheduler.log")

    class Extender(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answer: dict[str, Any]
            if self.path == "/filter":
                name = asked["Pod"]["metadata"]["name"]
                referee.feasible[name] = sorted(asked["NodeNames"])
                answer = {"NodeNames": asked["NodeNames"]}
            else:
                answer = {"Error": "nothing is bound here"}
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Extender)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 500, "burst": 1000},
        "profiles": [{"schedulerName": NAME}],
        "extenders": [
            {
                "urlPrefix": f"http://127.0.0.1:{server.server_port}",
                "filterVerb": "filter",
                "bindVerb": "bind",
                "nodeCacheCapable": True,
                "httpTimeout": "30s",
            }
        ],
    }
    file = folder / "configuration.yaml"
    file.write_text(json.dumps(configuration))
    command = [str(program), f"--config={file}", "--secure-port=0", "--vmodule=schedule_one=10"]
    scheduler = Component("kube-scheduler", command, referee._log, folder=folder)
    scheduler.start()
    try:
        yield referee
        scheduler.check()
    finally:
        scheduler.stop()
        server.shutdown()
        server.server_close()
