"""The server of one user: answers with the user's name and the number of requests so far."""

from __future__ import annotations

import json
import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import count

REQUESTS = count(1)


class Server(BaseHTTPRequestHandler):
    """Handles one request."""

    def do_GET(self) -> None:
        """Answer; the probe at `/healthz` does not count."""
        counted = {} if self.path == "/healthz" else {"requests": next(REQUESTS)}
        data = json.dumps({"user": os.environ["SERVER_USER"], **counted}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def stop(signum: int, frame: object) -> None:
    """End at once when the pod is deleted."""
    sys.exit(0)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, stop)
    HTTPServer(("", 8888), Server).serve_forever()
