"""The shop: answers with its name, its prices and the pod that answered."""

from __future__ import annotations

import json
import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

CONFIG = Path(os.environ.get("SHOP_CONFIG", "/etc/shop/shop.json"))


class Shop(BaseHTTPRequestHandler):
    """Handles one request."""

    def do_GET(self) -> None:
        """Answer `/` and `/healthz`; `/prices/tea` with the price of an item."""
        config = json.loads(CONFIG.read_text())
        if self.path == "/healthz":
            self.answer(200, {})
        elif self.path == "/":
            self.answer(200, {"name": config["name"], "pod": os.environ["HOSTNAME"]})
        elif (item := self.path.removeprefix("/prices/")) in config["prices"]:
            self.answer(200, {"item": item, "price": config["prices"][item]})
        else:
            self.answer(404, {"error": f"{self.path} is not for sale"})

    def answer(self, status: int, body: dict[str, object]) -> None:
        """Send a status and a JSON object."""
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def stop(signum: int, frame: object) -> None:
    """End at once when the pod is deleted."""
    sys.exit(0)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, stop)
    print("the shop is open", flush=True)
    ThreadingHTTPServer(("", 8080), Shop).serve_forever()
