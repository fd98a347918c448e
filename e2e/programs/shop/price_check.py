"""An admission webhook that refuses config maps without a price; a program of `e2e/programs`."""

from __future__ import annotations

import json
import ssl
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class _PriceCheck(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        """Answer an AdmissionReview."""
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = review["request"]
        allowed = "price" in (request["object"].get("data") or {})
        response = {"uid": request["uid"], "allowed": allowed}
        if not allowed:
            response["status"] = {"message": "a price is missing"}
        data = json.dumps({**review, "request": None, "response": response}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def main() -> None:
    """Serve HTTPS with the certificate in `/tls`."""
    server = ThreadingHTTPServer(("", 8443), _PriceCheck)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain("/tls/tls.crt", "/tls/tls.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
