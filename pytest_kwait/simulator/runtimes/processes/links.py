"""Links in the folders of an image whose targets are not in its containers.

A container has the machine's files, but its own `/tmp`, `/run` and others. So a link may lead to a
file that exists on the machine and not there.
"""

from __future__ import annotations

import os
from collections import deque
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.simulator.runtimes.processes.root_filesystem import OWN_FOLDERS, SPECIAL_FOLDERS

if TYPE_CHECKING:
    from collections.abc import Iterator

# Entries of folders that are looked at, those of upper folders first.
_MAX_ENTRIES = 5000
# Source: include/linux/namei.h, `MAXSYMLINKS`.
_MAX_HOPS = 40


class DanglingLink(NamedTuple):
    """A link whose target exists on the machine and not in the container.

    Args:
        path: of the link in the container.
        missing: the path in the container that would have to exist.
        source: what it is on the machine.
    """

    path: str
    missing: str
    source: str


class ImageFolders(NamedTuple):
    """The part of the machine that a container has.

    Args:
        visible: folders of the machine that are copied to folders of its own.
        files: paths in the container with what they are on the machine.
        volumes: paths with contents that are not looked at.
        workdir: the working directory.
    """

    visible: tuple[str, ...]
    files: tuple[tuple[str, str], ...]
    volumes: tuple[str, ...]
    workdir: str


def find_dangling_links(folders: ImageFolders) -> tuple[DanglingLink, ...]:
    """Return the links in an image's own folders that dangle in a container.

    It looks once until a folder at the top has changed, and at 5000 entries at most.
    """
    changed = []
    for _, source in _list_roots(folders):
        with suppress(OSError):
            changed.append(os.stat(source).st_mtime_ns)
    return _find_links(folders, tuple(changed))


@lru_cache(maxsize=64)
def _find_links(folders: ImageFolders, _changed: tuple[int, ...]) -> tuple[DanglingLink, ...]:
    found = []
    for path, source in _list_links(folders):
        # Those that dangle on the machine too are meant so.
        if os.path.exists(source):
            missing = find_missing_path(folders, path)
            if missing:
                found.append(DanglingLink(path, missing, os.path.realpath(source)))
    return tuple(found)


def _list_roots(folders: ImageFolders) -> Iterator[tuple[str, str]]:
    """Yield the image's own folders in the container, with what they are on the machine."""
    yield from folders.files
    for path in dict.fromkeys((*folders.visible, folders.workdir)):
        if path != "/":
            yield path, path


def _list_links(folders: ImageFolders) -> Iterator[tuple[str, str]]:
    """Yield links in the image's own folders, with their paths on the machine."""
    waiting = deque(_list_roots(folders))
    seen = set()
    count = 0
    while waiting:
        path, source = waiting.popleft()
        if path in seen:
            continue
        seen.add(path)
        try:
            entries = sorted(os.scandir(source), key=lambda entry: entry.name)
        except OSError:  # a file, or a folder of another user
            continue
        for entry in entries:
            count += 1
            if count > _MAX_ENTRIES:
                return
            if entry.is_symlink():
                yield f"{path}/{entry.name}", entry.path
            elif entry.is_dir():
                waiting.append((f"{path}/{entry.name}", entry.path))


def find_missing_path(folders: ImageFolders, path: str) -> str:
    """Return the path in a container at which a path ends before its target; empty if it exists."""
    rest = deque(path.split("/"))
    current, hops = "", 0
    while rest:
        part = rest.popleft()
        if part in ("", "."):
            continue
        if part == "..":
            current = os.path.dirname(current).rstrip("/")
            continue
        current = f"{current}/{part}"
        source = _find_source(folders, current)
        if source == "":
            return ""
        if source is None or not os.path.lexists(source):
            if _is_above_another(folders, current):
                continue
            return os.path.normpath("/".join((current, *rest)))
        if os.path.islink(source):
            hops += 1
            if hops > _MAX_HOPS:
                return path
            target = os.readlink(source)
            current = "" if target.startswith("/") else os.path.dirname(current).rstrip("/")
            rest.extendleft(reversed(target.split("/")))
    return ""


def _find_source(folders: ImageFolders, path: str) -> str | None:
    """Return a path on the machine; empty for one in a volume, None for one in a private folder."""
    known = [(folder, "") for folder in (*folders.volumes, *SPECIAL_FOLDERS)]
    known += folders.files
    known += [(folder, folder) for folder in folders.visible]
    known += [(real, real) for real in map(os.path.realpath, folders.visible)]
    best: tuple[str, str] | None = None
    for target, source in known:
        is_in = f"{path}/".startswith(f"{target}/")
        if is_in and (best is None or len(target) > len(best[0])):
            best = target, source
    if best is not None:
        target, source = best
        return source and source + path.removeprefix(target)
    is_private = any(f"{path}/".startswith(f"{folder}/") for folder in OWN_FOLDERS)
    return None if is_private else path


def _is_above_another(folders: ImageFolders, path: str) -> bool:
    """Return whether a path is a folder above one that is made in a container."""
    made = (*folders.visible, *folders.volumes, *(target for target, _ in folders.files))
    made += (folders.workdir, *OWN_FOLDERS)
    return any(f"{folder}/".startswith(f"{path}/") for folder in made)
