"""Programs that tell of files: `ls`, `find`, `du`, `stat`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pytest_kwait.simulator.busybox.libbb import UsageError, parse_options, write_error, write_out
from pytest_kwait.simulator.busybox.os.files import (
    Device,
    Directory,
    File,
    FileSystemError,
    Inode,
    Symlink,
)
from pytest_kwait.simulator.busybox.patterns import matches_glob

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from pytest_kwait.simulator.busybox.os.syscalls import Effect, Process, ProcessContext

__all__ = ["du", "find", "ls", "stat", "walk"]


def walk(name: str, node: Inode) -> Iterator[tuple[str, Inode]]:
    """A path and all that is in it, parents first."""
    yield name, node
    if isinstance(node, Directory):
        for entry, one in list(node.entries.items()):
            yield from walk(f"{name.rstrip('/')}/{entry}", one)


_TYPE_LETTERS = {Directory: "d", Symlink: "l", Device: "c"}


def _format_long(name: str, node: Inode) -> str:
    mode = "".join(
        letter if node.mode >> (8 - index) & 1 else "-" for index, letter in enumerate("rwxrwxrwx")
    )
    size = len(node.data) if isinstance(node, File) else 0
    stamp = datetime.fromtimestamp(node.mtime, UTC).strftime("%b %e %H:%M")
    links = 2 if isinstance(node, Directory) else 1
    shown = f"{name} -> {node.target}" if isinstance(node, Symlink) else name
    kind = _TYPE_LETTERS.get(type(node), "-")
    return f"{kind}{mode}    {links} root     root     {size:9d} {stamp} {shown}"


def ls(around: ProcessContext, args: list[str]) -> Process:
    """List files by name: `-l -a -A -1 -d -R -r -t -S`."""
    given, names = parse_options("ls", args, "laA1dRrtShCx", "", "FinpsuecTwkLHXvgGQZ")
    code, listed = 0, []
    for name in names or ["."]:
        try:
            node = around.files.node(around.path(name), follow="l" not in given)
            listed.append((name, node))
        except FileSystemError as fault:
            yield write_error(f"ls: {name}: {fault}")
            code = 1
    plain = [
        (name, node) for name, node in listed if not isinstance(node, Directory) or "d" in given
    ]
    folders = [one for one in listed if one not in plain]
    yield from _sort_entries(plain, given)
    titled = len(names) > 1 or "R" in given
    for index, (name, node) in enumerate(sorted(folders, key=lambda one: one[0])):
        first = index == 0 and not plain
        yield from _list_directory(name, node, given, titled=titled, first=first)
    return code


def _list_directory(
    name: str, node: Inode, given: dict[str, str], *, titled: bool, first: bool
) -> Generator[Effect, None, None]:
    if titled:
        yield write_out(("" if first else "\n") + f"{name}:\n")
    if not isinstance(node, Directory):
        return
    entries = list(node.entries.items())
    if "a" in given:
        entries += [(".", node), ("..", node)]
    elif "A" not in given:
        entries = [(one, found) for one, found in entries if not one.startswith(".")]
    if "l" in given:
        yield write_out("total 0\n")
    yield from _sort_entries(entries, given)
    if "R" in given:
        for entry, found in sorted(entries, key=lambda one: one[0]):
            if isinstance(found, Directory) and entry not in (".", ".."):
                yield from _list_directory(
                    f"{name.rstrip('/')}/{entry}", found, given, titled=True, first=False
                )


def _sort_entries(
    entries: list[tuple[str, Inode]], given: dict[str, str]
) -> Generator[Effect, None, None]:
    entries = sorted(entries, key=lambda one: one[0].encode(errors="surrogateescape"))
    if "t" in given:
        entries.sort(key=lambda one: -one[1].mtime)
    if "S" in given:
        entries.sort(key=lambda one: -len(one[1].data) if isinstance(one[1], File) else 0)
    if "r" in given:
        entries.reverse()
    lines = [_format_long(name, node) if "l" in given else name for name, node in entries]
    yield write_out("".join(f"{line}\n" for line in lines))


_FIND_TESTS = {"-name": 1, "-iname": 1, "-type": 1, "-path": 1, "-maxdepth": 1, "-mindepth": 1}


def find(around: ProcessContext, args: list[str]) -> Process:
    """Print paths: `-name -iname -path -type f|d|l -maxdepth -mindepth -print -delete`."""
    names: list[str] = []
    rest = list(args)
    while rest and not rest[0].startswith(("-", "!", "(")):
        names.append(rest.pop(0))
    tests: list[tuple[str, str]] = []
    delete = False
    while rest:
        word = rest.pop(0)
        if word in _FIND_TESTS and rest:
            tests.append((word, rest.pop(0)))
        elif word == "-delete":
            delete = True
        elif word not in ("-print", "-a"):
            raise UsageError(f"find: {word}: not simulated by the embedded kubelet")
    given = dict(tests)
    least, most = int(given.get("-mindepth", "0")), int(given.get("-maxdepth", "999"))
    code = 0
    for name in names or ["."]:
        start = around.files.find(around.path(name), follow=False)
        if start is None:
            yield write_error(f"find: {name}: No such file or directory")
            code = 1
            continue
        found = []
        for path, node in walk(name, start):
            depth = path[len(name.rstrip("/")) :].count("/") if path != name else 0
            if least <= depth <= most and all(_passes_test(path, node, *one) for one in tests):
                found.append(path)
        for path in reversed(found) if delete else found:
            if delete:
                around.files.remove(around.path(path))
            else:
                yield write_out(path + "\n")
    return code


def _passes_test(path: str, node: Inode, test: str, value: str) -> bool:
    last = path.rstrip("/").rpartition("/")[2]
    match test:
        case "-name":
            return matches_glob(value, last)
        case "-iname":
            return matches_glob(value.lower(), last.lower())
        case "-path":
            return matches_glob(value, path)
        case "-type":
            return _TYPE_LETTERS.get(type(node), "f") == value
    return True


def du(around: ProcessContext, args: list[str]) -> Process:
    """Print what files take: `-s -k -h`, in KiB."""
    given, names = parse_options("du", args, "skh", "", "aHLldmcx")
    for name in names or ["."]:
        start = around.files.find(around.path(name))
        if start is None:
            yield write_error(f"du: {name}: No such file or directory")
            return 1
        for path, node in [(name, start)] if "s" in given else list(walk(name, start)):
            if isinstance(node, Directory) or path == name:
                size = sum(len(one.data) for _, one in walk(path, node) if isinstance(one, File))
                yield write_out(f"{(size + 1023) // 1024}\t{path}\n")
    return 0


def stat(around: ProcessContext, args: list[str]) -> Process:
    """Print what is known of files in a format: `-c` with `%n %s %a %Y %F`."""
    given, names = parse_options("stat", args, "Lt", "c", "fz")
    if "c" not in given:
        raise UsageError("stat: without -c: not simulated by the embedded kubelet")
    code = 0
    for name in names:
        node = around.files.find(around.path(name), follow="L" in given)
        if node is None:
            yield write_error(f"stat: can't stat '{name}': No such file or directory")
            code = 1
            continue
        size = len(node.data) if isinstance(node, File) else 0
        kind = {Directory: "directory", Symlink: "symbolic link"}.get(type(node), "regular file")
        known = {
            "%n": name, "%s": str(size), "%a": f"{node.mode:o}", "%Y": str(int(node.mtime)),
            "%F": kind, "%u": "0", "%g": "0", "%U": "root", "%G": "root",
        }  # fmt: skip
        text = given["c"]
        for key, value in known.items():
            text = text.replace(key, value)
        yield write_out(text + "\n")
    return code
