"""Programs on files: `ls`, `find`, `du`, `stat`, `mkdir`, `cp`, `mv`, `mount` and others."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pytest_kwait.simulator.busybox.libbb import (
    NOT_SIMULATED,
    UsageError,
    WorkMeter,
    parse_options,
    sort_in_steps,
    write_error,
    write_out,
)
from pytest_kwait.simulator.busybox.os.files import (
    Device,
    Directory,
    File,
    FileSystem,
    FileSystemError,
    Inode,
    Symlink,
)
from pytest_kwait.simulator.busybox.patterns import matches_glob

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from pytest_kwait.simulator.busybox.os.syscalls import Effect, Process, ProcessContext

_TYPE_LETTERS = {Directory: "d", Symlink: "l", Device: "c"}

_FIND_TESTS = {"-name": 1, "-iname": 1, "-type": 1, "-path": 1, "-maxdepth": 1, "-mindepth": 1}

# The least number of X at the end of a template.
_TEMPLATE_LETTERS = 6

_MOUNTS = (
    ("overlay", "/", "overlay", "relatime"),
    ("proc", "/proc", "proc", "nosuid,nodev,noexec,relatime"),
    ("tmpfs", "/dev", "tmpfs", "nosuid,size=65536k,mode=755"),
    ("sysfs", "/sys", "sysfs", "nosuid,nodev,noexec,relatime"),
    ("cgroup", "/sys/fs/cgroup", "cgroup2", "nosuid,nodev,noexec,relatime"),
)
_VIRTUAL = ("/proc", "/sys")
# The work of a path that is looked up, and of an entry of a folder.
_PATH_WORK = 20
_ENTRY_WORK = 5


def walk(name: str, node: Inode) -> Iterator[tuple[str, Inode]]:
    """Yield a path and everything below it, parents first."""
    paths = [(name, node)]
    while paths:
        path, node = paths.pop()
        yield path, node
        if isinstance(node, Directory):
            start = path.rstrip("/")
            entries = reversed([*node.entries.items()])
            paths += [(f"{start}/{entry}", child) for entry, child in entries]


def _format_long(name: str, node: Inode) -> str:
    mode = "".join(
        letter if node.mode >> (8 - index) & 1 else "-" for index, letter in enumerate("rwxrwxrwx")
    )
    size = len(node.data) if isinstance(node, File) else 0
    stamp = datetime.fromtimestamp(node.mtime, UTC).strftime("%b %e %H:%M")
    links = 2 if isinstance(node, Directory) else 1
    label = f"{name} -> {node.target}" if isinstance(node, Symlink) else name
    kind = _TYPE_LETTERS.get(type(node), "-")
    return f"{kind}{mode}    {links} root     root     {size:9d} {stamp} {label}"


def ls(context: ProcessContext, args: list[str]) -> Process:
    """List files by name: `-l -a -A -1 -d -R -r -t -S`."""
    options, names = yield from parse_options("ls", args, "laA1dRrtShCx", "", "FinpsuecTwkLHXvgGQZ")
    code, listed, meter = 0, [], WorkMeter()
    for name in names or ["."]:
        yield from meter.spend(_PATH_WORK)
        try:
            node = context.files.get_node(context.resolve_path(name), follow="l" not in options)
            listed.append((name, node))
        except FileSystemError as fault:
            yield write_error(f"ls: {name}: {fault}")
            code = 1
    plain = [
        (name, node) for name, node in listed if not isinstance(node, Directory) or "d" in options
    ]
    folders = [
        (name, node) for name, node in listed if isinstance(node, Directory) and "d" not in options
    ]
    yield from _sort_entries(plain, options)
    titled = len(names) > 1 or "R" in options
    for index, (name, node) in enumerate(sorted(folders, key=lambda folder: folder[0])):
        first = index == 0 and not plain
        yield from _list_directory(name, node, options, titled=titled, first=first)
    return code


def _list_directory(
    name: str, node: Inode, options: dict[str, str], *, titled: bool, first: bool
) -> Generator[Effect, None, None]:
    if titled:
        yield write_out(("" if first else "\n") + f"{name}:\n")
    if not isinstance(node, Directory):
        return
    entries = list(node.entries.items())
    if "a" in options:
        entries += [(".", node), ("..", node)]
    elif "A" not in options:
        entries = [
            (entry_name, child) for entry_name, child in entries if not entry_name.startswith(".")
        ]
    if "l" in options:
        yield write_out("total 0\n")
    yield from _sort_entries(entries, options)
    if "R" in options:
        for entry, child in sorted(entries, key=lambda entry: entry[0]):
            if isinstance(child, Directory) and entry not in (".", ".."):
                yield from _list_directory(
                    f"{name.rstrip('/')}/{entry}", child, options, titled=True, first=False
                )


def _sort_entries(
    entries: list[tuple[str, Inode]], options: dict[str, str]
) -> Generator[Effect, None, None]:
    meter = WorkMeter()
    entries = yield from sort_in_steps(
        entries, lambda entry: entry[0].encode(errors="surrogateescape"), meter
    )
    if "t" in options:
        entries = yield from sort_in_steps(entries, lambda entry: -entry[1].mtime, meter)
    if "S" in options:
        entries = yield from sort_in_steps(entries, _get_negative_size, meter)
    if "r" in options:
        entries.reverse()
    lines = []
    for name, node in entries:
        yield from meter.spend(_ENTRY_WORK)
        lines.append(f"{_format_long(name, node) if 'l' in options else name}\n")
    yield write_out("".join(lines))


def _get_negative_size(entry: tuple[str, Inode]) -> int:
    return -len(entry[1].data) if isinstance(entry[1], File) else 0


def find(context: ProcessContext, args: list[str]) -> Process:
    """Print paths: `-name -iname -path -type f|d|l -maxdepth -mindepth -print -delete`."""
    names: list[str] = []
    meter, rest = WorkMeter(), iter(args)
    tests: list[tuple[str, str]] = []
    delete = is_after_names = False
    for word in rest:
        yield from meter.spend(1)
        is_after_names = is_after_names or word.startswith(("-", "!", "("))
        if not is_after_names:
            names.append(word)
            continue
        value = next(rest, None) if word in _FIND_TESTS else None
        if value is not None:
            tests.append((word, value))
        elif word == "-delete":
            delete = True
        elif word not in ("-print", "-a"):
            raise UsageError(f"find: {word}: {NOT_SIMULATED}")
    options = dict(tests)
    least, most = int(options.get("-mindepth", "0")), int(options.get("-maxdepth", "999"))
    code = 0
    for name in names or ["."]:
        yield from meter.spend(_PATH_WORK)
        start = context.files.find(context.resolve_path(name), follow=False)
        if start is None:
            yield write_error(f"find: {name}: No such file or directory")
            code = 1
            continue
        paths = []
        for path, node in walk(name, start):
            yield from meter.spend(_ENTRY_WORK * (1 + len(tests)))
            depth = path[len(name.rstrip("/")) :].count("/") if path != name else 0
            if not least <= depth <= most:
                continue
            for test, value in tests:
                if not (yield from _passes_test(path, node, test, value, meter)):
                    break
            else:
                paths.append(path)
        for path in reversed(paths) if delete else paths:
            if delete:
                context.files.remove(context.resolve_path(path))
            else:
                yield write_out(path + "\n")
    return code


def _passes_test(
    path: str, node: Inode, test: str, value: str, meter: WorkMeter
) -> Generator[Effect, None, bool]:
    last = path.rstrip("/").rpartition("/")[2]
    match test:
        case "-name":
            return (yield from matches_glob(value, last, meter))
        case "-iname":
            return (yield from matches_glob(value.lower(), last.lower(), meter))
        case "-path":
            return (yield from matches_glob(value, path, meter))
        case "-type":
            return _TYPE_LETTERS.get(type(node), "f") == value
    return True


def du(context: ProcessContext, args: list[str]) -> Process:
    """Print disk usage in KiB: `-s -k -h`."""
    options, names = yield from parse_options("du", args, "skh", "", "aHLldmcx")
    meter = WorkMeter()
    for name in names or ["."]:
        start = context.files.find(context.resolve_path(name))
        if start is None:
            yield write_error(f"du: {name}: No such file or directory")
            return 1
        for path, node in [(name, start)] if "s" in options else [*walk(name, start)]:
            yield from meter.spend(1)
            if isinstance(node, Directory) or path == name:
                size = 0
                for _, child in walk(path, node):
                    yield from meter.spend(_ENTRY_WORK)
                    size += len(child.data) if isinstance(child, File) else 0
                yield write_out(f"{(size + 1023) // 1024}\t{path}\n")
    return 0


def stat(context: ProcessContext, args: list[str]) -> Process:
    """Print the attributes of files: `-c` with `%n %s %a %Y %F`."""
    options, names = yield from parse_options("stat", args, "Lt", "c", "fz")
    if "c" not in options:
        raise UsageError(f"stat: without -c: {NOT_SIMULATED}")
    code, meter = 0, WorkMeter()
    for name in names:
        yield from meter.spend(_PATH_WORK)
        node = context.files.find(context.resolve_path(name), follow="L" in options)
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
        text = options["c"]
        for key, value in known.items():
            text = text.replace(key, value)
        yield write_out(text + "\n")
    return code


def mkdir(context: ProcessContext, args: list[str]) -> Process:
    """Create folders; `-p`: with parents, existing ones are no error."""
    options, names = yield from parse_options("mkdir", args, "p", "m")
    if not names:
        raise UsageError("BusyBox: usage: mkdir [-m MODE] [-p] DIRECTORY...")
    code, meter = 0, WorkMeter()
    for name in names:
        yield from meter.spend(_PATH_WORK * (1 + name.count("/")))
        try:
            context.files.make_directory(context.resolve_path(name), parents="p" in options)
        except FileSystemError as fault:
            yield write_error(f"mkdir: can't create directory '{name}': {fault}")
            code = 1
    return code


def rmdir(context: ProcessContext, args: list[str]) -> Process:
    """Remove empty folders."""
    _, names = yield from parse_options("rmdir", args, "", "", "p")
    if not names:
        raise UsageError("BusyBox: usage: rmdir [-p] DIRECTORY...")
    code, meter = 0, WorkMeter()
    for name in names:
        yield from meter.spend(_PATH_WORK)
        try:
            node = context.files.get_node(context.resolve_path(name), follow=False)
            if not isinstance(node, Directory):
                raise FileSystemError("Not a directory")
            if node.entries:
                raise FileSystemError("Directory not empty")
            context.files.remove(context.resolve_path(name))
        except FileSystemError as fault:
            yield write_error(f"rmdir: '{name}': {fault}")
            code = 1
    return code


def touch(context: ProcessContext, args: list[str]) -> Process:
    """Create files, or update their times."""
    options, names = yield from parse_options("touch", args, "c", "", "amhdrt")
    if not names:
        raise UsageError("BusyBox: usage: touch [-cham] [-d DATE] [-t DATE] [-r FILE] FILE...")
    code, meter = 0, WorkMeter()
    for name in names:
        yield from meter.spend(_PATH_WORK)
        path = context.resolve_path(name)
        try:
            node = context.files.find(path)
            if node is not None:
                context.files.get_parent(path)
                node.mtime = context.now()
            elif "c" not in options:
                context.files.open(path)
        except FileSystemError as fault:
            yield write_error(f"touch: {name}: {fault}")
            code = 1
    return code


def rm(context: ProcessContext, args: list[str]) -> Process:
    """Remove files; `-r`: folders, `-f`: missing ones are no error."""
    options, names = yield from parse_options("rm", args, "rRf", "", "i")
    if not names and "f" not in options:
        raise UsageError("BusyBox: usage: rm [-irf] FILE...")
    code, meter = 0, WorkMeter()
    for name in names:
        yield from meter.spend(_PATH_WORK)
        path = context.resolve_path(name)
        try:
            if name.rstrip("/").rpartition("/")[2] in (".", "..") or path == "/":
                yield write_error(f"rm: '{name}' cannot be removed")
                code = 1
                continue
            node = context.files.get_node(path.rstrip("/"), follow=False)
            if isinstance(node, Directory) and not ("r" in options or "R" in options):
                yield write_error(f"rm: '{name}' is a directory")
                code = 1
                continue
            context.files.remove(path)
        except FileSystemError as fault:
            missing = str(fault) in ("No such file or directory", "Not a directory")
            if not ("f" in options and missing):
                yield write_error(f"rm: can't remove '{name}': {fault}")
                code = 1
    return code


def _copy_inode(
    node: Inode, now: float, files: FileSystem, path: str, meter: WorkMeter
) -> Generator[Effect, None, Inode]:
    root = Directory()
    copied: list[tuple[Directory, str, Inode]] = [(root, "", node)]
    while copied:
        folder, name, node = copied.pop()
        yield from meter.spend(_ENTRY_WORK)
        files.reserve()
        if isinstance(node, Directory):
            made = Directory(mtime=now, mode=node.mode)
            folder.entries[name] = made
            copied += [(made, entry, child) for entry, child in reversed([*node.entries.items()])]
        elif isinstance(node, File):
            files.reserve(len(node.data), path)
            folder.entries[name] = File(bytes(node.data), node.mode, now)
        else:
            folder.entries[name] = node
    return root.entries[""]


def _resolve_targets(
    context: ProcessContext, program: str, names: list[str]
) -> Iterator[tuple[str, str]]:
    """Return each source with its target.

    Raises:
        UsageError: there are not enough names.
        FileSystemError: the target of several sources is not a folder.
    """
    if len(names) < 2:
        raise UsageError(f"BusyBox: usage: {program} SOURCE... DEST")
    target = context.files.find(context.resolve_path(names[-1]))
    for name in names[:-1]:
        if isinstance(target, Directory):
            last = name.rstrip("/").rpartition("/")[2]
            yield name, f"{names[-1].rstrip('/')}/{last}"
        elif len(names) > 2:
            raise FileSystemError(f"target '{names[-1]}' is not a directory")
        else:
            yield name, names[-1]


def cp(context: ProcessContext, args: list[str]) -> Process:
    """Copy files; `-r`: folders."""
    options, names = yield from parse_options("cp", args, "rRapfLdP", "", "ilsTtu")
    code, meter = 0, WorkMeter()
    try:
        for name, target in _resolve_targets(context, "cp", names):
            yield from meter.spend(_PATH_WORK)
            try:
                node = context.files.get_node(context.resolve_path(name))
                if isinstance(node, Directory) and not set("rRa") & set(options):
                    yield write_error(f"cp: omitting directory '{name}'")
                    code = 1
                    continue
                there = context.files.find(context.resolve_path(target))
                goal = context.resolve_path(target)
                copy = yield from _copy_inode(node, context.now(), context.files, goal, meter)
                if isinstance(there, Directory) and isinstance(copy, Directory):
                    there.writable_entries().update(copy.entries)
                elif isinstance(copy, File):
                    if there is node:
                        yield write_error(f"cp: '{name}' and '{target}' are the same file")
                        code = 1
                        continue
                    made = context.files.open(context.resolve_path(target), truncate=True)
                    if isinstance(made, File):
                        made.data, made.mode = copy.data, copy.mode
                else:
                    folder, last = context.files.get_parent(context.resolve_path(target))
                    folder.writable_entries()[last] = copy
            except FileSystemError as fault:
                source = context.files.find(context.resolve_path(name)) is None
                problem = f"can't stat '{name}'" if source else f"can't create '{target}'"
                yield write_error(f"cp: {problem}: {fault}")
                code = 1
    except FileSystemError as fault:
        yield write_error(f"cp: {fault}")
        return 1
    return code


def mv(context: ProcessContext, args: list[str]) -> Process:
    """Move files."""
    options, names = yield from parse_options("mv", args, "f", "", "inTt")
    del options
    code, meter = 0, WorkMeter()
    try:
        for name, target in _resolve_targets(context, "mv", names):
            yield from meter.spend(_PATH_WORK)
            path, goal = (
                context.resolve_path(name).rstrip("/"),
                context.resolve_path(target).rstrip("/"),
            )
            try:
                node = context.files.get_node(path, follow=False)
                if goal == path or goal.startswith(path + "/"):
                    same = f"mv: '{name}' and '{target}' are the same file"
                    inside = f"mv: can't rename '{name}': Invalid argument"
                    yield write_error(same if goal == path else inside)
                    code = 1
                    continue
                folder, last = context.files.get_parent(goal)
                context.files.remove(path)
                folder.writable_entries()[last] = node
            except FileSystemError as fault:
                yield write_error(f"mv: can't rename '{name}': {fault}")
                code = 1
    except FileSystemError as fault:
        yield write_error(f"mv: {fault}")
        return 1
    return code


def ln(context: ProcessContext, args: list[str]) -> Process:
    """Link files; `-s`: symbolically."""
    options, names = yield from parse_options("ln", args, "sfn", "", "bSvT")
    names = names if len(names) > 1 else [*names, "."]
    code, meter = 0, WorkMeter()
    for name, target in _resolve_targets(context, "ln", names):
        yield from meter.spend(_PATH_WORK)
        try:
            path = context.resolve_path(target)
            if context.files.find(path, follow=False) is not None:
                if "f" not in options:
                    raise FileSystemError("File exists")
                context.files.remove(path)
            node = (
                Symlink(name)
                if "s" in options
                else context.files.get_node(context.resolve_path(name))
            )
            folder, last = context.files.get_parent(path)
            context.files.reserve()
            folder.writable_entries()[last] = node
        except FileSystemError as fault:
            yield write_error(f"ln: {target}: {fault}")
            code = 1
    return code


def readlink(context: ProcessContext, args: list[str]) -> Process:
    """Print the target of a link; `-f`: the resolved path."""
    options, names = yield from parse_options("readlink", args, "fn", "", "v")
    if len(names) != 1:
        raise UsageError("BusyBox: usage: readlink [-fnv] FILE")
    code = 0
    for name in names:
        node = context.files.find(context.resolve_path(name), follow=False)
        if isinstance(node, Symlink) and "f" not in options:
            yield write_out(node.target + "\n")
        elif "f" in options:
            folder = context.resolve_path(name).rpartition("/")[0]
            target = node.target if isinstance(node, Symlink) else context.resolve_path(name)
            yield write_out(context.files.join_path(folder, target) + "\n")
        else:
            code = 1
    return code


def _parse_mode(node: Inode, text: str) -> int | None:
    """Parse a mode of `chmod`; None if it is invalid."""
    if text and all(char in "01234567" for char in text):
        return int(text, 8)
    mode = node.mode
    for piece in text.split(","):
        who = piece[: len(piece) - len(piece.lstrip("ugoa"))] or "a"
        rest = piece[len(who) if piece[:1] in "ugoa" else 0 :]
        if rest[:1] not in ("+", "-", "=") or not set(rest[1:]) <= set("rwxXst"):
            return None
        bits = sum({"r": 4, "w": 2, "x": 1, "X": 1}.get(char, 0) for char in set(rest[1:]))
        mask = sum(
            bits << shift
            for letter, shift in (("u", 6), ("g", 3), ("o", 0))
            if letter in who or "a" in who
        )
        whole = sum(
            7 << shift
            for letter, shift in (("u", 6), ("g", 3), ("o", 0))
            if letter in who or "a" in who
        )
        mode = mode | mask if rest[0] == "+" else (mode & ~(mask if rest[0] == "-" else whole))
        mode |= mask if rest[0] == "=" else 0
    return mode


def chmod(context: ProcessContext, args: list[str]) -> Process:
    """Change the modes of files; `-R`: recursively."""
    flags = [arg for arg in args if arg in ("-R", "-f")]
    names = [arg for arg in args if arg not in flags]
    if len(names) < 2:
        raise UsageError("BusyBox: usage: chmod [-R] MODE[,MODE]... FILE...")
    code, meter = 0, WorkMeter()
    for name in names[1:]:
        yield from meter.spend(_PATH_WORK)
        root_node = context.files.find(context.resolve_path(name))
        if root_node is None:
            yield write_error(f"chmod: {name}: No such file or directory")
            code = 1
            continue
        for _, node in walk(name, root_node) if "-R" in flags else ((name, root_node),):
            yield from meter.spend(_ENTRY_WORK)
            mode = _parse_mode(node, names[0])
            if mode is None:
                yield write_error(f"chmod: invalid mode '{names[0]}'")
                return 1
            node.mode = mode
    return code


def chown(context: ProcessContext, args: list[str]) -> Process:
    """Check that files exist; every user is root."""
    _, operands = yield from parse_options("chown", args, "RhLHPcvf")
    if len(operands) < 2:
        raise UsageError("BusyBox: usage: chown [-RhLHPcvf]... USER[:[GRP]] FILE...")
    names = operands[1:]
    code, meter = 0, WorkMeter()
    for name in names:
        yield from meter.spend(_PATH_WORK)
        if context.files.find(context.resolve_path(name)) is None:
            yield write_error(f"chown: {name}: No such file or directory")
            code = 1
    return code


def sync(context: ProcessContext, args: list[str]) -> Process:
    """Check that files can be opened; nothing is written later."""
    _, names = yield from parse_options("sync", args, "df")
    code, meter = 0, WorkMeter()
    for name in names:
        yield from meter.spend(_PATH_WORK)
        if context.files.find(context.resolve_path(name)) is None:
            yield write_error(f"sync: can't open '{name}': No such file or directory")
            code = 1
    return code


def mktemp(context: ProcessContext, args: list[str]) -> Process:
    """Create a temporary file, or folder with `-d`, and print its name."""
    options, names = yield from parse_options("mktemp", args, "dutq", "p")
    if len(names) > 1:
        raise UsageError("BusyBox: usage: mktemp [-dt] [-p DIR] [TEMPLATE]")
    template = names[0] if names else f"{options.get('p', '/tmp')}/tmp.XXXXXX"  # noqa: S108 - a container's
    start = template.rstrip("X")
    if len(template) - len(start) < _TEMPLATE_LETTERS:
        yield write_error("mktemp: (null): Invalid argument")
        return 1
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    end = "".join(random.choice(letters) for _ in range(len(template) - len(start)))  # noqa: S311 - a name
    path = context.resolve_path(start + end)
    try:
        if "d" in options:
            context.files.make_directory(path)
        else:
            context.files.open(path)
    except FileSystemError as fault:
        yield write_error(f"mktemp: (null): {fault}")
        return 1
    yield write_out(start + end + "\n")
    return 0


def mount(context: ProcessContext, args: list[str]) -> Process:
    """Print the mounts, of a type with `-t`; a container cannot mount anything."""
    flags, names = yield from parse_options("mount", args, "l", "t", "aoOfinrsvwFTUuLBM")
    if names:
        if context.user.is_privileged:
            raise UsageError(f"mount: {NOT_SIMULATED}")
        yield write_error("mount: permission denied (are you root?)")
        return 1
    volumes = []
    for path, node in context.files.list_mounts():
        in_memory = isinstance(node, Directory) and node.quota is not None
        source, kind = ("tmpfs", "tmpfs") if in_memory else ("/dev/vda1", "ext4")
        if not path.startswith(_VIRTUAL):
            volumes.append((source, path, kind, "relatime"))
    for source, path, kind, options in (*_MOUNTS, *volumes):
        if kind != flags.get("t", kind):
            continue
        mount_node = context.files.find(path)
        access = "ro" if isinstance(mount_node, Directory) and mount_node.read_only else "rw"
        yield write_out(f"{source} on {path} type {kind} ({access},{options})\n")
    return 0
