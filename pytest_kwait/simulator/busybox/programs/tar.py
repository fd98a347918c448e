"""`tar` over the files of a container; `kubectl cp` uses it."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from pytest_kwait.simulator.busybox.libbb import NOT_SIMULATED, read_all_up_to, write_error
from pytest_kwait.simulator.busybox.os.files import Directory, File, FileSystemError, Symlink
from pytest_kwait.simulator.busybox.os.syscalls import Effect, Process, Write

if TYPE_CHECKING:
    import tarfile
    from collections.abc import Generator

    from pytest_kwait.simulator.busybox.os.files import Inode
    from pytest_kwait.simulator.busybox.os.syscalls import ProcessContext

_CHUNK = 64 * 1024
_MAX_ARCHIVE = 64 << 20
_LONG_OPTIONS = ("--no-same-permissions", "--no-same-owner", "--overwrite")


def tar(context: ProcessContext, args: list[str]) -> Process:
    """Create (`c`), list (`t`) or extract (`x`) an archive, relative to `-C DIR`."""
    mode, file, folder, names = _parse_arguments(args)
    if not mode:
        yield Write(2, b"BusyBox: usage: tar c|x|t [-f FILE] [-C DIR] [FILE]...\n")
        return 1
    if folder and not isinstance(context.files.find(context.resolve_path(folder)), Directory):
        text = f"tar: can't change directory to '{folder}': No such file or directory\n"
        yield Write(2, text.encode())
        return 1
    if mode == "c":
        return (yield from _create(context, file, folder, names))
    data = yield from _open_archive(context, file)
    if data is None:
        text = f"tar: can't open '{file}': No such file or directory\n"
        yield Write(2, text.encode())
        return 1
    if len(data) > _MAX_ARCHIVE:
        yield write_error(f"tar: an archive of more than 64 MiB: {NOT_SIMULATED}")
        return 1
    # Loaded on first use: most containers copy nothing.
    import tarfile

    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            for member in archive:
                if mode == "t":
                    suffix = "/" if member.isdir() else ""
                    yield Write(1, f"{member.name}{suffix}\n".encode())
                else:
                    try:
                        _unpack(context, archive, member, folder)
                    except FileSystemError as fault:
                        yield Write(2, f"tar: can't open '{member.name}': {fault}\n".encode())
                        return 1
    except tarfile.ReadError:
        yield Write(2, b"tar: short read\n" if len(data) < 1024 else b"tar: invalid magic\n")
        return 1
    return 0


def _parse_arguments(args: list[str]) -> tuple[str, str, str, list[str]]:
    """Return mode, archive, folder and names."""
    mode, file, folder = "", "-", ""
    names: list[str] = []
    rest = list(args)
    first = True
    while rest:
        word = rest.pop(0)
        if word in _LONG_OPTIONS:
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


def _create(context: ProcessContext, file: str, folder: str, names: list[str]) -> Process:
    import tarfile

    buffer = io.BytesIO()
    code = 0
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name in names:
            # A link is archived itself; `/` at its end stands for what it leads to.
            follow = name.endswith("/")
            node = context.files.find(_resolve_within(context, folder, name), follow=follow)
            if node is None:
                yield Write(2, f"tar: {name}: No such file or directory\n".encode())
                code = 1
                continue
            if name.startswith("/"):
                yield Write(2, b"tar: removing leading '/' from member names\n")
            _add(archive, name.strip("/"), node)
    if code:
        yield Write(2, b"tar: error exit delayed from previous errors\n")
    data = buffer.getvalue()
    if file != "-":
        context.files.write(context.resolve_path(file), data)
        return code
    for start in range(0, len(data), _CHUNK):
        yield Write(1, data[start : start + _CHUNK])
    return code


def _add(archive: tarfile.TarFile, name: str, node: Inode) -> None:
    """Add a path, a folder before its entries."""
    import tarfile

    entry = tarfile.TarInfo(name or ".")
    entry.mode, entry.mtime = node.mode, int(node.mtime)
    if isinstance(node, Directory):
        entry.type = tarfile.DIRTYPE
        archive.addfile(entry)
        for child_name in sorted(node.entries):
            _add(archive, f"{name}/{child_name}".lstrip("/"), node.entries[child_name])
    elif isinstance(node, Symlink):
        entry.type, entry.linkname = tarfile.SYMTYPE, node.target
        archive.addfile(entry)
    elif isinstance(node, File):
        entry.size = len(node.data)
        archive.addfile(entry, io.BytesIO(bytes(node.data)))


def _open_archive(context: ProcessContext, file: str) -> Generator[Effect, None, bytes | None]:
    """Return the whole archive; None if it does not exist."""
    if file != "-":
        return context.files.read(context.resolve_path(file))
    return (yield from read_all_up_to(0, _MAX_ARCHIVE))


def _unpack(
    context: ProcessContext, archive: tarfile.TarFile, member: tarfile.TarInfo, folder: str
) -> None:
    if ".." in member.name.split("/"):
        return
    path = _resolve_within(context, folder, member.name)
    if member.isdir():
        context.files.make_directory(path, parents=True)
        node = context.files.find(path)
        if node is not None:
            node.mode = member.mode & 0o777
    elif member.issym():
        context.files.put(path, Symlink(member.linkname))
    elif member.isfile():
        content = archive.extractfile(member)
        parent = path.rpartition("/")[0]
        if parent:
            context.files.make_directory(parent, parents=True)
        context.files.write(path, content.read() if content is not None else b"")
        node = context.files.find(path)
        if node is not None:
            node.mode, node.mtime = member.mode & 0o777, float(member.mtime)


def _resolve_within(context: ProcessContext, folder: str, name: str) -> str:
    return context.files.join_path(context.resolve_path(folder or "."), name).rstrip("/") or "/"
