"""Programs that make, move and remove files."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from pytest_kwait.simulator.kubelet.files import (
    File,
    FileFault,
    Files,
    Folder,
    Link,
    Node,
)
from pytest_kwait.simulator.kubelet.inputs import UsageFault, error, options, out
from pytest_kwait.simulator.kubelet.programs_listing import under

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.kubelet.processes import Process, Surroundings


def mkdir(around: Surroundings, args: list[str]) -> Process:
    """Make folders; `-p` is content with one that is there."""
    given, names = options("mkdir", args, "p", "m")
    code = 0
    for name in names:
        try:
            around.files.make_folder(around.path(name), parents="p" in given)
        except FileFault as fault:
            yield error(f"mkdir: can't create directory '{name}': {fault}")
            code = 1
    return code


def rmdir(around: Surroundings, args: list[str]) -> Process:
    """Remove empty folders."""
    _, names = options("rmdir", args, "", "", "p")
    code = 0
    for name in names:
        try:
            found = around.files.node(around.path(name), follow=False)
            if not isinstance(found, Folder):
                raise FileFault("Not a directory")
            if found.entries:
                raise FileFault("Directory not empty")
            around.files.remove(around.path(name))
        except FileFault as fault:
            yield error(f"rmdir: '{name}': {fault}")
            code = 1
    return code


def touch(around: Surroundings, args: list[str]) -> Process:
    """Make files that are not there, and let others be as of now."""
    given, names = options("touch", args, "c", "", "amhdrt")
    code = 0
    for name in names:
        path = around.path(name)
        try:
            found = around.files.find(path)
            if found is not None:
                around.files.parent(path)
                found.mtime = around.now()
            elif "c" not in given:
                around.files.open(path)
        except FileFault as fault:
            yield error(f"touch: {name}: {fault}")
            code = 1
    return code


def rm(around: Surroundings, args: list[str]) -> Process:
    """Remove files; with `-r` folders, with `-f` silently what is not there."""
    given, names = options("rm", args, "rRf", "", "i")
    code = 0
    for name in names:
        path = around.path(name)
        try:
            if name.rstrip("/").rpartition("/")[2] in (".", "..") or path == "/":
                yield error(f"rm: '{name}' cannot be removed")
                code = 1
                continue
            found = around.files.node(path.rstrip("/"), follow=False)
            if isinstance(found, Folder) and not ("r" in given or "R" in given):
                yield error(f"rm: '{name}' is a directory")
                code = 1
                continue
            around.files.remove(path)
        except FileFault as fault:
            missing = str(fault) in ("No such file or directory", "Not a directory")
            if not ("f" in given and missing):
                yield error(f"rm: can't remove '{name}': {fault}")
                code = 1
    return code


def _copy(node: Node, now: float, files: Files, path: str) -> Node:
    files.grow()
    if isinstance(node, Folder):
        entries = {name: _copy(one, now, files, path) for name, one in node.entries.items()}
        made = Folder(mtime=now, mode=node.mode)
        made.entries.update(entries)
        return made
    if isinstance(node, File):
        files.grow(len(node.data), path)
        return File(bytes(node.data), node.mode, now)
    return node


def _targets(around: Surroundings, program: str, names: list[str]) -> Iterator[tuple[str, str]]:
    """Each source and where it goes.

    Raises:
        UsageFault: there are not enough names.
        FileFault: many go where there is no folder.
    """
    if len(names) < 2:
        raise UsageFault(f"BusyBox: usage: {program} SOURCE... DEST")
    target = around.files.find(around.path(names[-1]))
    for name in names[:-1]:
        if isinstance(target, Folder):
            last = name.rstrip("/").rpartition("/")[2]
            yield name, f"{names[-1].rstrip('/')}/{last}"
        elif len(names) > 2:
            raise FileFault(f"target '{names[-1]}' is not a directory")
        else:
            yield name, names[-1]


def cp(around: Surroundings, args: list[str]) -> Process:
    """Copy files; with `-r` folders."""
    given, names = options("cp", args, "rRapfLdP", "", "ilsTtu")
    code = 0
    try:
        for name, target in _targets(around, "cp", names):
            try:
                found = around.files.node(around.path(name))
                if isinstance(found, Folder) and not set("rRa") & set(given):
                    yield error(f"cp: omitting directory '{name}'")
                    code = 1
                    continue
                there = around.files.find(around.path(target))
                copy = _copy(found, around.now(), around.files, around.path(target))
                if isinstance(there, Folder) and isinstance(copy, Folder):
                    there.changed().update(copy.entries)
                elif isinstance(copy, File):
                    if there is found:
                        yield error(f"cp: '{name}' and '{target}' are the same file")
                        code = 1
                        continue
                    made = around.files.open(around.path(target), truncate=True)
                    if isinstance(made, File):
                        made.data, made.mode = copy.data, copy.mode
                else:
                    folder, last = around.files.parent(around.path(target))
                    folder.changed()[last] = copy
            except FileFault as fault:
                source = around.files.find(around.path(name)) is None
                told = f"can't stat '{name}'" if source else f"can't create '{target}'"
                yield error(f"cp: {told}: {fault}")
                code = 1
    except FileFault as fault:
        yield error(f"cp: {fault}")
        return 1
    return code


def mv(around: Surroundings, args: list[str]) -> Process:
    """Move files."""
    given, names = options("mv", args, "f", "", "inTt")
    del given
    code = 0
    try:
        for name, target in _targets(around, "mv", names):
            path, goal = around.path(name).rstrip("/"), around.path(target).rstrip("/")
            try:
                found = around.files.node(path, follow=False)
                if goal == path or goal.startswith(path + "/"):
                    yield error(f"mv: '{name}' and '{target}' are the same file" if goal == path
                                else f"mv: can't rename '{name}': Invalid argument")  # fmt: skip
                    code = 1
                    continue
                folder, last = around.files.parent(goal)
                around.files.remove(path)
                folder.changed()[last] = found
            except FileFault as fault:
                yield error(f"mv: can't rename '{name}': {fault}")
                code = 1
    except FileFault as fault:
        yield error(f"mv: {fault}")
        return 1
    return code


def ln(around: Surroundings, args: list[str]) -> Process:
    """Link files; `-s` by their paths."""
    given, names = options("ln", args, "sfn", "", "bSvT")
    names = names if len(names) > 1 else [*names, "."]
    code = 0
    for name, target in _targets(around, "ln", names):
        try:
            path = around.path(target)
            if around.files.find(path, follow=False) is not None:
                if "f" not in given:
                    raise FileFault("File exists")
                around.files.remove(path)
            node = Link(name) if "s" in given else around.files.node(around.path(name))
            folder, last = around.files.parent(path)
            around.files.grow()
            folder.changed()[last] = node
        except FileFault as fault:
            yield error(f"ln: {target}: {fault}")
            code = 1
    return code


def readlink(around: Surroundings, args: list[str]) -> Process:
    """Print where a link leads; `-f` the whole path."""
    given, names = options("readlink", args, "fn", "", "v")
    code = 0
    for name in names:
        found = around.files.find(around.path(name), follow=False)
        if isinstance(found, Link) and "f" not in given:
            yield out(found.target + "\n")
        elif "f" in given:
            folder = around.path(name).rpartition("/")[0]
            target = found.target if isinstance(found, Link) else around.path(name)
            yield out(around.files.joined(folder, target) + "\n")
        else:
            code = 1
    return code


def _modes(node: Node, text: str) -> int | None:
    """A mode as `chmod` reads it; None where it is none."""
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


def chmod(around: Surroundings, args: list[str]) -> Process:
    """Change what may be done with files; `-R` with all that is in them."""
    flags = [arg for arg in args if arg in ("-R", "-f")]
    names = [arg for arg in args if arg not in flags]
    if len(names) < 2:
        raise UsageFault("BusyBox: usage: chmod [-R] MODE[,MODE]... FILE...")
    code = 0
    for name in names[1:]:
        found = around.files.find(around.path(name))
        if found is None:
            yield error(f"chmod: {name}: No such file or directory")
            code = 1
            continue
        for _, node in under(name, found) if "-R" in flags else ((name, found),):
            mode = _modes(node, names[0])
            if mode is None:
                yield error(f"chmod: invalid mode '{names[0]}'")
                return 1
            node.mode = mode
    return code


def chown(around: Surroundings, args: list[str]) -> Process:
    """Give files to somebody, as far as they are there: everybody here is root."""
    names = [arg for arg in args if not arg.startswith("-")][1:]
    code = 0
    for name in names:
        if around.files.find(around.path(name)) is None:
            yield error(f"chown: {name}: No such file or directory")
            code = 1
    return code


def mktemp(around: Surroundings, args: list[str]) -> Process:
    """Make a file, or with `-d` a folder, of a new name and print that."""
    given, names = options("mktemp", args, "dutq", "p")
    template = names[0] if names else f"{given.get('p', '/tmp')}/tmp.XXXXXX"  # noqa: S108 - a container's
    start = template.rstrip("X")
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    end = "".join(random.choice(letters) for _ in range(len(template) - len(start)))  # noqa: S311 - a name
    path = around.path(start + end)
    try:
        if "d" in given:
            around.files.make_folder(path)
        else:
            around.files.open(path)
    except FileFault as fault:
        yield error(f"mktemp: (null): {fault}")
        return 1
    yield out(start + end + "\n")
    return 0
