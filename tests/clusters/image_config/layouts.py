"""OCI layouts and docker archives, written as tools write them."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
NAME = "org.opencontainers.image.ref.name"

WEB = {
    "Entrypoint": ["python", "-m"],
    "Cmd": ["shop.web"],
    "Env": ["PATH=/usr/bin", "A=b=c", "EMPTY="],
    "WorkingDir": "/app",
    "User": "1000:1000",
    "StopSignal": "SIGQUIT",
    "ExposedPorts": {"8080/tcp": {}},
}


class Layout:
    """The files of an OCI layout, by path."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}'}

    def add_blob(self, value: object, kind: str, **more: Any) -> dict[str, Any]:
        """Add a blob of JSON; return its descriptor."""
        data = json.dumps(value).encode()
        digest = hashlib.sha256(data).hexdigest()
        self.files[f"blobs/sha256/{digest}"] = data
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data), **more}

    def add_image(
        self, process: Mapping[str, Any] | None, kind: str = CONFIG_TYPE, **more: Any
    ) -> dict[str, Any]:
        """Add an image; return the descriptor of its manifest."""
        config = self.add_blob({"architecture": "amd64", "os": "linux", "config": process}, kind)
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST_TYPE, "config": config, "layers": []}
        return self.add_blob(manifest, MANIFEST_TYPE, **more)

    def set_index(self, *manifests: Mapping[str, Any]) -> Layout:
        """Write the index."""
        index = {"schemaVersion": 2, "manifests": manifests}
        self.files["index.json"] = json.dumps(index).encode()
        return self

    def write_folder(self, folder: Path) -> Path:
        """Write the layout as a folder."""
        for name, data in self.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        return folder

    def write_tar(self, path: Path, mode: str = "w", prefix: str = "./") -> Path:
        """Write the layout as a tar."""
        write_tar(path, {prefix + name: data for name, data in self.files.items()}, mode)
        return path


def write_tar(path: Path, files: Mapping[str, bytes], mode: str = "w") -> Path:
    """Write files as a tar."""
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload] # modes are literals
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


def make_saved(*images: tuple[str, Mapping[str, Any]]) -> dict[str, bytes]:
    """Return the files of a docker archive, with images by their names."""
    files: dict[str, bytes] = {}
    manifest = []
    for name, process in images:
        data = json.dumps({"config": process}).encode()
        config = f"{hashlib.sha256(data).hexdigest()}.json"
        files[config] = data
        manifest.append({"Config": config, "RepoTags": [name], "Layers": ["x/layer.tar"]})
    return {**files, "manifest.json": json.dumps(manifest).encode()}
