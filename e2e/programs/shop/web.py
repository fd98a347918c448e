"""The web server of a shop: shows its files and environment; a program of `e2e/programs`."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class _Shop(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """Serve `/client`, `/env`, `/files/PATH`, `/healthz` and a greeting."""
        if self.path == "/env":
            self._reply(200, json.dumps(dict(os.environ)))
        elif self.path == "/client":
            self._reply(200, self.client_address[0])
        elif self.path.startswith("/files/"):
            path = Path(self.path.removeprefix("/files"))
            found = path.is_file()
            self._reply(200 if found else 404, path.read_text() if found else "not found")
        elif self.path == "/healthz":
            self._reply(503 if Path("/tmp/broken").exists() else 200, "ok")
        elif self.path == "/stop":
            self._reply(200, "stopping")
            threading.Thread(target=self.server.shutdown).start()
        else:
            self._reply(200, f"welcome to {os.environ['HOSTNAME']}")

    def _reply(self, status: int, text: str) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *arguments: object) -> None:
        """Log requests to stdout."""
        print(format % arguments, flush=True)


def main() -> None:
    """Serve until SIGTERM."""
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8080
    address = sys.argv[2] if len(sys.argv) > 2 else ""
    server = ThreadingHTTPServer((address, port), _Shop)

    def stop(_number: int, _frame: object) -> None:
        print("closing the shop", flush=True)
        threading.Thread(target=server.shutdown).start()

    signal.signal(signal.SIGTERM, stop)
    print(f"open at {port} in {Path.cwd()}", flush=True)
    server.serve_forever()
    Path("/dev/termination-log").write_text("closed in order")


if __name__ == "__main__":
    main()
