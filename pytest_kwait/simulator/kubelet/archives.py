"""`tar` over the files of a container: what copies files in and out."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from pytest_kwait.simulator.kubelet.files import File, Folder, Link
from pytest_kwait.simulator.kubelet.inputs import read_all
from pytest_kwait.simulator.kubelet.processes import Effect, Process, Write

if TYPE_CHECKING:
    import tarfile
    from collections.abc import Generator

    from pytest_kwait.simulator.kubelet.files import Node
    from pytest_kwait.simulator.kubelet.processes import Surroundings

__all__ = ["tar"]

_PIECE = 64 * 1024
_MOST_ARCHIVE = 64 << 20
_LONG = ("--no-same-permissions", "--no-same-owner", "--overwrite")


def tar(around: Surroundings, args: list[str]) -> Process:
    """Make (`c`), list (`t`) or unpack (`x`) an archive, in or below `-C DIR`."""
    mode, file, folder, names = _arguments(args)
    if not mode:
        yield Write(2, b"BusyBox: usage: tar c|x|t [-f FILE] [-C DIR] [FILE]...\n")
        return 1
    if folder and not isinstance(around.files.find(around.path(folder)), Folder):
        text = f"tar: can't change directory to '{folder}': No such file or directory\n"
        yield Write(2, text.encode())
        return 1
    if mode == "c":
        return (yield from _make(around, file, folder, names))
    data = yield from _input(around, file)
    if data is None:
        text = f"tar: can't open '{file}': No such file or directory\n"
        yield Write(2, text.encode())
        return 1
    # Not at import: most containers copy nothing.
    import tarfile

    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            for member in archive:
                if mode == "t":
                    suffix = "/" if member.isdir() else ""
                    yield Write(1, f"{member.name}{suffix}\n".encode())
                else:
                    _unpack(around, archive, member, folder)
    except tarfile.ReadError:
        yield Write(2, b"tar: short read\n" if len(data) < 1024 else b"tar: invalid magic\n")
        return 1
    return 0


def _arguments(args: list[str]) -> tuple[str, str, str, list[str]]:
    """The mode, the archive, the folder and the names."""
    mode, file, folder = "", "-", ""
    names: list[str] = []
    rest = list(args)
    first = True
    while rest:
        word = rest.pop(0)
        if word in _LONG:
            continue
        if (word[:1] == "-" and len(word) > 1) or first:
            for letter in word.lstrip("-"):
                if letter in "cxt":
                    mode = letter
                elif letter == "f" and rest:
                    file = rest.pop(0)
                elif letter == "C" and rest:
                    folder = rest.pop(0)
        else:
            names.append(word)
        first = False
    return mode, file, folder, names


def _make(around: Surroundings, file: str, folder: str, names: list[str]) -> Process:
    import tarfile

    buffer = io.BytesIO()
    code = 0
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name in names:
            found = around.files.find(_within(around, folder, name))
            if found is None:
                yield Write(2, f"tar: {name}: No such file or directory\n".encode())
                code = 1
                continue
            if name.startswith("/"):
                yield Write(2, b"tar: removing leading '/' from member names\n")
            _add(archive, name.strip("/"), found)
    if code:
        yield Write(2, b"tar: error exit delayed from previous errors\n")
    data = buffer.getvalue()
    if file != "-":
        around.files.write(around.path(file), data)
        return code
    for start in range(0, len(data), _PIECE):
        yield Write(1, data[start : start + _PIECE])
    return code


def _add(archive: tarfile.TarFile, name: str, node: Node) -> None:
    """Add what is at a path, a folder before what is in it."""
    import tarfile

    entry = tarfile.TarInfo(name or ".")
    entry.mode, entry.mtime = node.mode, int(node.mtime)
    if isinstance(node, Folder):
        entry.type = tarfile.DIRTYPE
        archive.addfile(entry)
        for one in sorted(node.entries):
            _add(archive, f"{name}/{one}".lstrip("/"), node.entries[one])
    elif isinstance(node, Link):
        entry.type, entry.linkname = tarfile.SYMTYPE, node.target
        archive.addfile(entry)
    elif isinstance(node, File):
        entry.size = len(node.data)
        archive.addfile(entry, io.BytesIO(bytes(node.data)))


def _input(around: Surroundings, file: str) -> Generator[Effect, None, bytes | None]:
    """The whole archive; None where there is no such file."""
    if file != "-":
        return around.files.read(around.path(file))
    return (yield from read_all(0, _MOST_ARCHIVE))


def _unpack(
    around: Surroundings, archive: tarfile.TarFile, member: tarfile.TarInfo, folder: str
) -> None:
    if ".." in member.name.split("/"):
        return
    path = _within(around, folder, member.name)
    if member.isdir():
        around.files.make_folder(path, parents=True)
    elif member.issym():
        around.files.put(path, Link(member.linkname))
    elif member.isfile():
        content = archive.extractfile(member)
        parent = path.rpartition("/")[0]
        if parent:
            around.files.make_folder(parent, parents=True)
        around.files.write(path, content.read() if content is not None else b"")
        found = around.files.find(path)
        if found is not None:
            found.mode, found.mtime = member.mode & 0o777, float(member.mtime)


def _within(around: Surroundings, folder: str, name: str) -> str:
    return around.files.joined(around.path(folder or "."), name).rstrip("/") or "/"
