"""The two container images of a node, built from the local busybox without pulling."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import subprocess
import tarfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

BUSYBOX = "docker.io/library/busybox:1.36"
PAUSE = "registry.k8s.io/pause:3.10"

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_FOR_EVER = "2147483647"


def write_archive(busybox: Path, archive: Path) -> None:
    """Write both images as one docker archive: busybox with its shell, pause that sleeps."""
    layer = busybox_layer(busybox)
    digest = hashlib.sha256(layer).hexdigest()
    files = {f"{digest}.tar": layer}
    manifest = []
    commands = {BUSYBOX: ["sh"], PAUSE: ["/bin/sleep", _FOR_EVER]}
    for image, command in commands.items():
        config = describe_image([digest], Env=["PATH=/bin"], Cmd=command)
        name = f"{hashlib.sha256(config).hexdigest()}.json"
        files[name] = config
        manifest.append({"Config": name, "RepoTags": [image], "Layers": [f"{digest}.tar"]})
    files["manifest.json"] = json.dumps(manifest).encode()
    with tarfile.open(archive, "w") as tar:
        for name, data in files.items():
            add_file(tar, name, data, 0o644)


def describe_image(layers: Sequence[str], **config: object) -> bytes:
    """Return the configuration of an image with the digests of its layers."""
    return json.dumps(
        {
            "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{each}" for each in layers]},
        }
    ).encode()


def busybox_layer(busybox: Path) -> bytes:
    """Return the file system of both images as a tar."""
    listed = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for folder, mode in {"bin": 0o755, "etc": 0o755, "root": 0o700, "tmp": 0o1777}.items():
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            tar.addfile(entry)
        add_file(
            tar, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:\n", 0o644
        )
        add_file(tar, "etc/group", b"root:x:0:\nnogroup:x:65534:\n", 0o644)
        add_file(tar, "bin/busybox", busybox.read_bytes(), 0o755)
        for applet in sorted(set(listed.stdout.split()) - {"busybox"}):
            entry = tarfile.TarInfo(f"bin/{applet}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(entry)
    return buffer.getvalue()


def add_file(tar: tarfile.TarFile, name: str, data: bytes, mode: int) -> None:
    """Add a file with the given contents."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), mode
    tar.addfile(entry, io.BytesIO(data))
