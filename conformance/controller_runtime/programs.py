"""`etcd` and `kube-apiserver` for envtest, backed by the embedded cluster.

envtest starts both from `KUBEBUILDER_ASSETS`, with its own certificates, and stops them with
SIGTERM. The API server is an embedded cluster that is an API server alone; etcd only answers its
health check.

Source: sigs.k8s.io/controller-runtime pkg/internal/testing/controlplane.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import sys
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from tempfile import TemporaryFile
from urllib.parse import urlsplit

_OWN = (b"pytest_kwait.simulator", b"controller_runtime/programs.py")
_ROOT = Path(__file__).resolve().parents[2]


def write_assets(folder: Path) -> None:
    """Write the programs into a folder for `KUBEBUILDER_ASSETS`.

    Each running one has a file named by its process id in the folder `processes`.
    """
    (folder / "processes").mkdir()
    for program in ("etcd", "kube-apiserver"):
        file = folder / program
        noted = shlex.quote(str(folder / "processes"))
        command = shlex.join([sys.executable, "-P", str(Path(__file__).resolve()), program])
        path = shlex.quote(str(_ROOT))
        file.write_text(
            f'#!/bin/sh\n: >{noted}/$$\nPYTHONPATH={path} exec {command} "$@"\n', encoding="utf-8"
        )
        file.chmod(0o755)


def end_leftovers(folder: Path) -> None:
    """End the programs of `folder` that a suite has started and not stopped."""
    for file in (folder / "processes").iterdir():
        command = Path("/proc", file.name, "cmdline")
        with suppress(OSError):
            if any(part in command.read_bytes() for part in _OWN):
                os.kill(int(file.name), signal.SIGTERM)
        file.unlink()


class _Health(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        """Log nothing."""


def _serve_etcd(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="etcd")
    parser.add_argument("--listen-client-urls", required=True)
    given, _ = parser.parse_known_args(arguments)
    url = urlsplit(given.listen_client_urls)
    HTTPServer((url.hostname or "", url.port or 0), _Health).serve_forever()


def _serve_api(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="kube-apiserver")
    parser.add_argument("--bind-address", required=True)
    parser.add_argument("--secure-port", required=True)
    parser.add_argument("--cert-dir", type=Path, required=True)
    parser.add_argument("--client-ca-file", required=True)
    given, _ = parser.parse_known_args(arguments)
    options = {
        "api_only": True,
        "address": given.bind_address,
        "port": int(given.secure_port),
        "tls_cert_file": str(given.cert_dir / "apiserver.crt"),
        "tls_private_key_file": str(given.cert_dir / "apiserver.key"),
        "client_ca_file": given.client_ca_file,
    }
    with TemporaryFile() as file:
        file.write(json.dumps(options).encode())
        file.seek(0)
        descriptor = os.dup(file.fileno())
    os.set_inheritable(descriptor, True)
    command = [sys.executable, "-P", "-m", "pytest_kwait.simulator"]
    command += ["--options-fd", str(descriptor)]
    command += ["--kubeconfig", str(given.cert_dir / "kubeconfig")]
    os.execv(sys.executable, command)


if __name__ == "__main__":
    {"etcd": _serve_etcd, "kube-apiserver": _serve_api}[sys.argv[1]](sys.argv[2:])
