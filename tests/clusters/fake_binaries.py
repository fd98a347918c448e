"""etcd and kube-apiserver with their flags and log files, and nothing behind them.

`write` makes programs whose behaviour is a word: `serves`, `fails`, `taken`, `unready`, `mute`, or
`embedded` for the API server of the embedded cluster.
"""

from __future__ import annotations

import json
import os
import signal
import ssl
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path


def write(folder: Path, *, etcd: str = "mute", server: str = "serves") -> Path:
    """Return a folder with both programs."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, behaviour in (("etcd", etcd), ("kube-apiserver", server)):
        program = folder / name
        program.write_text(
            f'#!/bin/sh\nexec {sys.executable} -I -S {Path(__file__)} {behaviour} "$@"\n'
        )
        program.chmod(0o755)
    return folder


def main(behaviour: str, *arguments: str) -> None:
    print(*arguments, flush=True)
    if behaviour == "fails":
        print("Error: it does not like its flags", flush=True)
        sys.exit(3)
    if behaviour == "taken":
        count = Path(os.environ["FAKE_ATTEMPTS"])
        attempts = int(count.read_text()) if count.exists() else 0
        count.write_text(str(attempts + 1))
        if attempts < 1 or "FAKE_ALWAYS" in os.environ:
            print("failed to listen on 127.0.0.1: bind: address already in use", flush=True)
            sys.exit(1)
    if behaviour == "mute":
        pid = Path(f"{os.getpid()}.pid")
        pid.write_text(pid.stem)
        pid.rename("etcd.pid")
        while True:
            signal.pause()
    if behaviour == "embedded":
        run_embedded(arguments)
    serve(arguments, b"ok" if behaviour != "unready" else b"[-]etcd failed: reason withheld")


def run_embedded(arguments: tuple[str, ...]) -> None:
    flags = dict(each[2:].split("=", 1) for each in arguments if "=" in each)
    same = ("tls-cert-file", "tls-private-key-file", "client-ca-file")
    options = {name.replace("-", "_"): flags[name] for name in same}
    file = Path("embedded-options")
    file.write_text(json.dumps({"api_only": True, "port": int(flags["secure-port"]), **options}))
    descriptor = os.open(file, os.O_RDONLY)
    os.set_inheritable(descriptor, True)
    command = [sys.executable, "-P", "-m", "pytest_kwait.simulator"]
    os.execv(command[0], [*command, f"--options-fd={descriptor}", "--kubeconfig=embedded"])


def serve(arguments: tuple[str, ...], readiness: bytes) -> None:
    flags = dict(each[2:].split("=", 1) for each in arguments if "=" in each)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(flags["tls-cert-file"], flags["tls-private-key-file"])
    context.load_verify_locations(flags["client-ca-file"])
    context.verify_mode = ssl.CERT_REQUIRED

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if readiness == b"ok" else 500)
            self.send_header("Content-Length", str(len(readiness)))
            self.end_headers()
            self.wfile.write(readiness)

    server = HTTPServer((flags["bind-address"], int(flags["secure-port"])), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    while not Path("etcd.pid").exists():  # as the real one, it is ready after etcd only
        time.sleep(0.01)  # noqa: TID251 - a program of its own, without the package
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
