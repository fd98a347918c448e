"""Container images of programs of this machine, imported into the nodes of a running cluster.

All images share one layer with this Python, its packages and libraries, and busybox. A second
layer has the files that the mapping of an image names.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import stat
import subprocess
import sys
import tarfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING

from tools.controlplane import assets, images, node
from tools.controlplane.boot import CONTAINERD_SOCKET
from tools.controlplane.cluster import State
from tools.controlplane.errors import BrokenError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_kwait.simulator.protocol.image_mapping import ImageMapping

TAGS = ("1", "latest")
"""The tags of an image whose pattern allows any."""

_LEFT_OUT = re.compile(
    # Development files, and packages that test a program but do not run in it.
    r"\..+|site-packages|tests?|idlelib|tkinter|ensurepip|config-\d.*|playwright|mypyc?|pip|ruff|.*\.a"
)
_TREE_LEFT_OUT = re.compile(r"\..+|__pycache__|.*\.egg-info|node_modules|venv")
_SYSTEM = ("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/sbin", "/sys", "/usr")
_SHARED = ("/", "/home", "/media", "/mnt", "/opt", "/root", "/run", "/srv", "/tmp", "/var")
_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
_FILES = {
    "etc/passwd": b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n",
    "etc/group": b"root:x:0:\nnogroup:x:65534:\n",
    "etc/nsswitch.conf": b"hosts: files dns\n",
}
_LIBRARY = re.compile(r"^\s+(?:\S+ => )?(/\S+) \(0x", re.MULTILINE)
_DAY = 86400.0


def list_names(pattern: str) -> list[str]:
    """Return the full names of the images that a pattern has on a real node.

    Raises:
        ValueError: it has a `*` elsewhere than for the whole tag.
    """
    name, colon, tag = pattern.rpartition(":")
    if not colon or "/" in tag:
        name, tag = pattern, "*"
    if "*" in name or "@" in name or ("*" in tag and tag != "*"):
        raise ValueError(f'a node needs the name of an image, not the pattern "{pattern}"')
    domain, slash, _ = name.partition("/")
    if not slash or not ("." in domain or ":" in domain or domain == "localhost"):
        name = f"docker.io/{name if slash else f'library/{name}'}"
    return [f"{name}:{each}" for each in (TAGS if tag == "*" else (tag,))]


def import_images(folder: Path, mappings: Iterable[ImageMapping]) -> None:
    """Make images of the mappings and import those that the nodes do not have yet.

    A mapping is imported once: later changes of the files that it names do not count.

    Args:
        folder: the cluster's.
        mappings: their patterns name images; see `list_names`.
    """
    wanted = {
        name: (json.dumps(one.to_json(), sort_keys=True), one)
        for one in mappings
        for name in list_names(one.pattern)
    }
    done = folder / "images.json"
    with assets.only_one(folder / "images.lock"):
        known: dict[str, str] = json.loads(done.read_text()) if done.exists() else {}
        new = {name: one for name, one in wanted.items() if known.get(name) != one[0]}
        if not new:
            return
        state = State.read(folder)
        if state is None:
            raise UnavailableError(f"no cluster runs in {folder}")
        base = _make_base()
        made = [Image(name, mapping, base) for name, (_, mapping) in new.items()]
        for name in state.nodes:
            _import(state.node_process(name), made, base)
        done.write_text(json.dumps({**known, **{name: one[0] for name, one in new.items()}}))


def _import(init: int, new: Sequence[Image], base: Base) -> None:
    command = ["nsenter", "--mount", f"--target={init}", "--", "ctr"]
    command += [f"--address={CONTAINERD_SOCKET}", "--namespace=k8s.io", "images", "import", "-"]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PATH": node.search_path()},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        # Where it ends early, its output says why.
        with suppress(BrokenPipeError), process.stdin as pipe:
            write_archive(pipe, new, base)
        said = process.stdout.read().decode(errors="replace")
    if process.returncode:
        raise BrokenError(f"{' '.join(command)} failed:\n{said}")


def write_archive(file: IO[bytes], new: Sequence[Image], base: Base) -> None:
    """Write images as one docker archive; each layer and configuration stands in it once."""
    layers = {image.layer_digest: image.layer for image in new}
    with tarfile.open(fileobj=file, mode="w|") as tar:
        with base.archive.open("rb") as content:
            entry = tarfile.TarInfo(f"{base.digest}.tar")
            entry.size = base.archive.stat().st_size
            tar.addfile(entry, content)
        for digest, data in layers.items():
            images.add_file(tar, f"{digest}.tar", data, 0o644)
        for config in {image.config for image in new}:
            images.add_file(tar, f"{hashlib.sha256(config).hexdigest()}.json", config, 0o644)
        manifest = [
            {
                "Config": f"{image.digest}.json",
                "RepoTags": [image.name],
                "Layers": [f"{base.digest}.tar", f"{image.layer_digest}.tar"],
            }
            for image in new
        ]
        images.add_file(tar, "manifest.json", json.dumps(manifest).encode(), 0o644)


class Image:
    """An image: its name, its configuration and its own layer."""

    def __init__(self, name: str, mapping: ImageMapping, base: Base) -> None:
        self.name = name
        self.layer = _make_layer(
            tuple(sorted(_list_paths(mapping, base))), tuple(sorted(mapping.files.items())), base
        )
        self.layer_digest = hashlib.sha256(self.layer).hexdigest()
        self.config = images.describe_image(
            [base.digest, self.layer_digest],
            Entrypoint=list(mapping.command),
            Cmd=list(mapping.args) or None,
            Env=[f"{key}={value}" for key, value in mapping.env.items()],
            WorkingDir=mapping.workdir,
            User=mapping.user,
        )
        self.digest = hashlib.sha256(self.config).hexdigest()


def _list_paths(mapping: ImageMapping, base: Base) -> Iterator[Path]:
    """Return the files and folders of this machine that a mapping names."""
    machine = os.environ.get("PATH", os.defpath).split(os.pathsep)
    machine.append(str(Path(sys.executable).parent))
    words = [*mapping.command, *mapping.args, mapping.workdir]
    for name, value in mapping.env.items():
        given = value.split(os.pathsep)
        words += [one for one in given if name != "PATH" or one not in machine]
    for word in words:
        if not word.startswith("/"):
            continue
        path = Path(os.path.normpath(word))
        if str(path) in _SHARED or base.has(path) or not path.exists():
            continue
        if path.is_dir() and any(path.is_relative_to(folder) for folder in _SYSTEM):
            continue
        yield path


@cache
def _make_layer(paths: tuple[Path, ...], files: tuple[tuple[str, str], ...], base: Base) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        layer = _Layer(tar)
        for path in paths:
            layer.add_tree(path, _TREE_LEFT_OUT)
        for target, source in files:
            layer.add_copy(Path(source).resolve(), target)
        programs = [*paths, *(Path(source) for _, source in files)]
        for library in _list_libraries(path for path in programs if path.is_file()):
            if not base.has(library):
                layer.add(library)
    return buffer.getvalue()


class _Layer:
    """A tar of files of this machine at their own paths, with the links that lead to them."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self._names: set[str] = set()

    def add(self, path: Path) -> None:
        """Add a file, link or folder, without the contents of the folder; and what leads to it."""
        name = str(path).lstrip("/")
        if not name or name in self._names:
            return
        self._names.add(name)
        folder = path.parent.resolve()
        self.add(path.parent)
        if folder != path.parent:
            self.add(folder / path.name)
            return
        self._add_entry(path, name)
        if path.is_symlink() and path.exists():
            self.add(Path(os.path.normpath(folder / path.readlink())))

    def add_tree(self, path: Path, left_out: re.Pattern[str]) -> None:
        """Add a file, or a folder with its contents."""
        for found in _walk(path, left_out):
            self.add(found)

    def add_copy(self, path: Path, target: str) -> None:
        """Add a file, or a folder with its contents, at another path."""
        for found in _walk(path, _TREE_LEFT_OUT):
            name = os.path.normpath(target + "/" + str(found.relative_to(path))).lstrip("/")
            self._names.add(name)
            self._add_entry(found, name)

    def add_data(self, name: str, data: bytes, mode: int = 0o644) -> None:
        """Add a file with the given contents."""
        self._names.add(name)
        images.add_file(self._tar, name, data, mode)

    def add_link(self, name: str, target: str) -> None:
        """Add a symbolic link, unless something has its name."""
        if name not in self._names:
            self._names.add(name)
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            self._tar.addfile(entry)

    def _add_entry(self, path: Path, name: str) -> None:
        entry = self._tar.gettarinfo(path, name)
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        if not entry.isreg():
            self._tar.addfile(entry)
            return
        # A second hard link would refer to the first.
        entry.type, entry.linkname, entry.size = tarfile.REGTYPE, "", path.stat().st_size
        with path.open("rb") as content:
            self._tar.addfile(entry, content)


def _walk(path: Path, left_out: re.Pattern[str]) -> Iterator[Path]:
    """Return a path, and what a folder has; the names within are not `left_out`."""
    yield path
    if path.is_symlink() or not path.is_dir():
        return
    for entry in sorted(os.scandir(path), key=lambda one: one.name):
        if left_out.fullmatch(entry.name):
            continue
        mode = entry.stat(follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            yield from _walk(Path(entry.path), left_out)
        elif stat.S_ISREG(mode) or stat.S_ISLNK(mode):
            yield Path(entry.path)


def _list_libraries(files: Iterable[Path]) -> set[Path]:
    """Return the shared libraries, and the loader, that programs and libraries need."""
    elf = []
    for file in files:
        with file.open("rb") as content:
            if content.read(4) == b"\x7fELF":
                elf.append(str(file))
    if not elf:
        return set()
    # It fails where one of them is statically linked.
    told = subprocess.run(["ldd", *elf], capture_output=True, text=True, check=False).stdout
    return {Path(os.path.normpath(found)) for found in _LIBRARY.findall(told)}


class Base:
    """The layer that all images share.

    Args:
        archive: its tar.
        names: the paths that it has whole.
    """

    def __init__(self, archive: Path, names: Iterable[str]) -> None:
        self.archive = archive
        self.digest = archive.stem
        self._names = frozenset(names)

    def has(self, path: Path) -> bool:
        """Return whether a path is in it."""
        return str(path) in self._names


@cache
def _make_base() -> Base:
    """Return the layer, after making it if files have changed since it was made."""
    paths = _list_python_paths()
    seen = hashlib.sha256(Path(__file__).read_bytes())
    for path in paths:
        found = path.lstat()
        about = (str(path), found.st_mode, found.st_size, found.st_mtime_ns)
        seen.update(repr(about).encode())
    folder = assets.storage() / "program-images"
    folder.mkdir(parents=True, exist_ok=True)
    index = folder / f"{seen.hexdigest()}.json"
    with assets.only_one(folder / "lock"):
        if not index.exists():
            _write_base(paths, index)
        made = json.loads(index.read_text())
        archive = folder / made["archive"]
        os.utime(index)
        os.utime(archive)
        _remove_old(folder)
    return Base(archive, made["names"])


def _remove_old(folder: Path) -> None:
    """Remove what no run has used for a day."""
    now = time.time()  # noqa: TID251 - a tool, outside of the product
    for file in folder.iterdir():
        if file.name != "lock" and file.stat().st_mtime < now - _DAY:
            file.unlink()


def _list_python_paths() -> list[Path]:
    """Return the files of this Python: its environment, standard library and packages."""
    asked = [sys.executable, "-I", "-c", "import json, sys; print(json.dumps(sys.path))"]
    told = subprocess.run(asked, capture_output=True, check=True, text=True).stdout
    source = Path(__file__).resolve().parents[2]
    # An editable package is in the source tree, which programs name themselves.
    named = [path for path in json.loads(told) if Path(path) != source]
    if sys.prefix != sys.base_prefix:
        named += [f"{sys.prefix}/bin", f"{sys.prefix}/pyvenv.cfg"]
    roots = [Path(os.path.normpath(path)) for path in (*named, sys.executable)]
    return [path for root in roots if root.exists() for path in _walk(root, _LEFT_OUT)]


def _write_base(paths: Sequence[Path], index: Path) -> None:
    busybox = node.find_busybox()
    if busybox is None:
        raise UnavailableError("an image needs busybox, statically linked: busybox-static")
    partial = index.with_suffix(".partial")
    with tarfile.open(partial, "w") as tar:
        layer = _Layer(tar)
        for name, data in _FILES.items():
            layer.add_data(name, data)
        layer.add(Path("/tmp"))
        for name in ("bin", "lib", "lib64", "sbin"):
            if Path("/", name).is_symlink():
                layer.add(Path("/", name))
        libraries = _list_libraries(path for path in paths if _is_binary(path))
        whole = [*paths, *sorted(libraries), *_list_certificates()]
        for path in whole:
            layer.add(path)
        applets = _add_busybox(layer, busybox)
    with partial.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    partial.rename(index.with_name(f"{digest}.tar"))
    new = index.with_suffix(".new")
    new.write_text(json.dumps({"archive": f"{digest}.tar", "names": [*map(str, whole), *applets]}))
    new.rename(index)


def _is_binary(path: Path) -> bool:
    return path.is_file() and (".so" in path.name or os.access(path, os.X_OK))


def _list_certificates() -> list[Path]:
    return [path for path in (Path(_CERTIFICATES),) if path.exists()]


def _add_busybox(layer: _Layer, busybox: Path) -> list[str]:
    """Add its programs; return their paths."""
    listed = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True)
    folder = "usr/bin" if Path("/bin").is_symlink() else "bin"
    layer.add_data(f"{folder}/busybox", busybox.read_bytes(), 0o755)
    applets = sorted(set(listed.stdout.split()) - {"busybox"})
    for applet in applets:
        layer.add_link(f"{folder}/{applet}", "busybox")
    return [f"{place}/{applet}" for place in ("/bin", "/usr/bin") for applet in applets]
