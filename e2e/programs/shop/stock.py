"""The stock of a shop: a gRPC server that answers health checks; a program of `e2e/programs`.

Written from the protocol (RFC 9113, RFC 7541), so that the suite needs no library of gRPC.
"""

from __future__ import annotations

import socketserver
import struct
import sys
from pathlib import Path

_DATA, _HEADERS, _SETTINGS, _PING = 0, 1, 4, 6
_ACK, _END_STREAM, _END_HEADERS = 1, 1, 4
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_SERVING, _NOT_SERVING = 1, 2
_SOLD_OUT = Path("/tmp/sold-out")


def _frame(kind: int, flags: int, stream: int, body: bytes = b"") -> bytes:
    return struct.pack(">I", len(body))[1:] + struct.pack(">BBI", kind, flags, stream) + body


def _literal(name: bytes, value: bytes) -> bytes:
    """Return a header field that no table keeps."""
    return bytes([0, len(name)]) + name + bytes([len(value)]) + value


class _Connection(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        """Answer every call with the state of the stock."""
        if self.rfile.read(len(_PREFACE)) != _PREFACE:
            return
        self.wfile.write(_frame(_SETTINGS, 0, 0))
        while head := self.rfile.read(9):
            length = int.from_bytes(head[:3], "big")
            kind, flags, stream = struct.unpack(">BBI", head[3:])
            body = self.rfile.read(length)
            if kind in (_SETTINGS, _PING) and not flags & _ACK:
                self.wfile.write(_frame(kind, _ACK, 0, body if kind == _PING else b""))
            elif kind == _DATA and flags & _END_STREAM:
                self._answer(stream)

    def _answer(self, stream: int) -> None:
        state = _NOT_SERVING if _SOLD_OUT.exists() else _SERVING
        message = bytes([0x08, state])
        status = b"\x88" + _literal(b"content-type", b"application/grpc")
        self.wfile.write(
            _frame(_HEADERS, _END_HEADERS, stream, status)
            + _frame(_DATA, 0, stream, struct.pack(">BI", 0, len(message)) + message)
            + _frame(_HEADERS, _END_HEADERS | _END_STREAM, stream, _literal(b"grpc-status", b"0"))
        )


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


def main() -> None:
    """Serve at a port."""
    port = int(sys.argv[1])
    with _Server(("", port), _Connection) as server:
        print(f"counting at {port}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
