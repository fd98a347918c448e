"""An image registry that opens late: its one image cannot be pulled before."""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.controlplane.images import busybox_layer

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Registry", "is_local"]

_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_CONFIG = "application/vnd.docker.container.image.v1+json"
_LAYER = "application/vnd.docker.image.rootfs.diff.tar"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def is_local(address: str) -> bool:
    """Whether an address is one of this machine, and there is a busybox to make an image of."""
    with socket.socket() as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return shutil.which("busybox") is not None


class Registry:
    """Holds a port that refuses connections until `open` is called."""

    def __init__(self) -> None:
        layer = busybox_layer(Path(str(shutil.which("busybox"))))
        config = _json(
            architecture=_ARCHITECTURES.get(platform.machine(), platform.machine()),
            os="linux",
            # Nothing but this makes it another image than busybox, which a runtime that is given
            # two manifests of one image would lose.
            config={"Env": ["PATH=/bin"], "Cmd": ["sh"], "Labels": {"example.com/late": "yes"}},
            rootfs={"type": "layers", "diff_ids": [_digest(layer)]},
        )
        manifest = _json(
            schemaVersion=2,
            mediaType=_MANIFEST,
            config=_part(_CONFIG, config),
            layers=[_part(_LAYER, layer)],
        )
        self._blobs = {_digest(data): data for data in (layer, config, manifest)}
        self._manifest = manifest
        # Not listening: the port is ours, and nobody answers on it.
        self._keeper = socket.socket()
        self._keeper.bind(("127.0.0.1", 0))
        self._server: ThreadingHTTPServer | None = None

    @property
    def image(self) -> str:
        """The name of the image."""
        return f"127.0.0.1:{self._keeper.getsockname()[1]}/late:1"

    def open(self) -> None:
        """Answer from now on."""
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.answer(self)

            do_HEAD = do_GET  # noqa: N815 - the name that http.server asks for

            def log_message(self, format: str, *args: Any) -> None:
                pass

        port = self._keeper.getsockname()[1]
        self._keeper.close()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Answer one request of a runtime."""
        name = request.path.partition("?")[0].rpartition("/")[2]
        data = self._manifest if name == "1" else self._blobs.get(name, b"")
        known = bool(data) or name in ("", "v2")
        request.send_response(200 if known else 404)
        if data:
            is_manifest = data is self._manifest
            request.send_header("Content-Type", _MANIFEST if is_manifest else _LAYER)
            request.send_header("Docker-Content-Digest", _digest(data))
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        if request.command == "GET":
            request.wfile.write(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._keeper.close()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


def _json(**content: Any) -> bytes:
    return json.dumps(content).encode()


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _part(kind: str, data: bytes) -> dict[str, Any]:
    return {"mediaType": kind, "digest": _digest(data), "size": len(data)}
