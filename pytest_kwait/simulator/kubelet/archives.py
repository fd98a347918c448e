"""`tar` over the files of a container: what copies files in and out."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from pytest_kwait.simulator.kubelet.inputs import read_all
from pytest_kwait.simulator.kubelet.processes import Effect, Process, Write

if TYPE_CHECKING:
    import tarfile
    from collections.abc import Generator

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
    if folder and not _is_folder(around, folder):
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


def _is_folder(around: Surroundings, name: str) -> bool:
    under = name.rstrip("/") + "/"
    standard = ("/", "/tmp/", "./")  # noqa: S108 - a path of the container
    return under in standard or any(path.startswith(under) for path in around.files)


def _make(around: Surroundings, file: str, folder: str, names: list[str]) -> Process:
    import tarfile

    buffer = io.BytesIO()
    code = 0
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name in names:
            path = _within(folder, name)
            found = [one for one in around.files if one == path or one.startswith(f"{path}/")]
            if not found:
                yield Write(2, f"tar: {name}: No such file or directory\n".encode())
                code = 1
                continue
            if name.startswith("/"):
                yield Write(2, b"tar: removing leading '/' from member names\n")
            made: set[str] = set()
            for one in sorted(found):
                shown = (name.rstrip("/") + one[len(path) :]).lstrip("/")
                _add(archive, shown, around.files[one], name.strip("/"), made, around.now())
    if code:
        yield Write(2, b"tar: error exit delayed from previous errors\n")
    data = buffer.getvalue()
    if file != "-":
        around.files[file] = data
        return code
    for start in range(0, len(data), _PIECE):
        yield Write(1, data[start : start + _PIECE])
    return code


def _add(
    archive: tarfile.TarFile, name: str, data: bytes, root: str, made: set[str], now: float
) -> None:
    """Add a file after the folders between it and `root`."""
    import tarfile

    parts = name.rstrip("/").split("/")
    depth = root.count("/") + 1
    folders = ["/".join(parts[:length]) for length in range(depth, len(parts))]
    if name.endswith("/"):
        folders.append(name.rstrip("/"))
    for folder in folders:
        if folder not in made:
            made.add(folder)
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode, entry.mtime = tarfile.DIRTYPE, 0o755, int(now)
            archive.addfile(entry)
    if not name.endswith("/"):
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode, entry.mtime = len(data), 0o644, int(now)
        archive.addfile(entry, io.BytesIO(data))


def _input(around: Surroundings, file: str) -> Generator[Effect, None, bytes | None]:
    """The whole archive; None where there is no such file."""
    if file != "-":
        return around.files.get(file)
    return (yield from read_all(around.stdin, _MOST_ARCHIVE))


def _unpack(
    around: Surroundings, archive: tarfile.TarFile, member: tarfile.TarInfo, folder: str
) -> None:
    name = _within(folder, member.name)
    if ".." in name.split("/"):
        return
    if member.isdir():
        around.files.setdefault(f"{name}/", b"")
    elif member.isfile():
        content = archive.extractfile(member)
        around.files[name] = content.read() if content is not None else b""


def _within(folder: str, name: str) -> str:
    name = name.rstrip("/")
    if not folder or folder == "." or name.startswith("/"):
        return name
    return f"{folder.rstrip('/')}/{name}"
