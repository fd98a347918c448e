"""An image registry that refuses pulls of its one image until it is opened."""

from __future__ import annotations

import ctypes
import hashlib
import json
import platform
import shutil
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tools.controlplane.images import busybox_layer

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

_T = TypeVar("_T")

_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_CONFIG = "application/vnd.docker.container.image.v1+json"
_LAYER = "application/vnd.docker.image.rootfs.diff.tar"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


_LIBC = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNET = 0x40000000


def _run_within(namespace: Path, action: Callable[[], _T]) -> _T:
    """Run an action in a thread that has entered a network namespace."""

    def run() -> _T:
        with namespace.open("rb") as file:
            if _LIBC.setns(file.fileno(), _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns", str(namespace))
        return action()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result()


class Registry:
    """Holds a port that refuses connections until `open` is called.

    Args:
        namespace: the network namespace of the nodes, on whose loopback interface it listens.
    """

    def __init__(self, namespace: Path) -> None:
        self._namespace = namespace
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
        # Not listening: reserves the port and refuses connections.
        self._keeper = _run_within(namespace, socket.socket)
        self._keeper.bind(("127.0.0.1", 0))
        self._server: ThreadingHTTPServer | None = None

    @property
    def image(self) -> str:
        """The name of the image."""
        return f"127.0.0.1:{self._keeper.getsockname()[1]}/late:1"

    def open(self) -> None:
        """Start to answer."""
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.answer(self)

            do_HEAD = do_GET  # noqa: N815 - the name that http.server asks for

            def log_message(self, format: str, *args: Any) -> None:
                pass

        port = self._keeper.getsockname()[1]
        self._keeper.close()
        self._server = _run_within(
            self._namespace, lambda: ThreadingHTTPServer(("127.0.0.1", port), Handler)
        )
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
