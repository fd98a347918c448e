"""Bytecode of virtual environments, kept between the containers of a cluster.

uv and `pip --no-compile` install without bytecode, and what a container writes ends with it: each
pod would compile its imports again. A container of such an environment writes bytecode to a folder
of its own (`PYTHONPYCACHEPREFIX`), which starts with that of earlier containers. Of what it has
written, the modules of installations are kept whose bytecode is that of the machine's own file.

Source: Lib/importlib/_bootstrap_external.py, `cache_from_source`, `_validate_timestamp_pyc`.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import struct
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

TARGET = "/run/kwait/bytecode"
"""The path of the folder in a container."""
VARIABLE = "PYTHONPYCACHEPREFIX"
_VARIABLES = (VARIABLE, "PYTHONDONTWRITEBYTECODE")
_PYTHON = re.compile(r"python[0-9.]*")
_NO_BYTECODE = re.compile(r"-[A-Za-z]*B[A-Za-z]*")
_INSTALLED = re.compile(r"/lib(64)?/python3(\.[0-9]+)?/")
_FILE = re.compile(r"(.+)\.[A-Za-z]+-[0-9]+(?:\.opt-[0-9])?\.pyc")
_HEADER = struct.Struct("<4sIII")
_INSTALLERS = ("_distutils_hack", "pip", "pkg_resources", "setuptools", "wheel")
"""Packages that `python -m venv` installs, with bytecode."""
_MIN_COMPILED = 10
"""Packages of which one has bytecode, where the machine's own Python runs in the environment."""
_MAX_FILES = 2000
"""Files of an environment; all of them are linked when a container starts."""
_MAX_BYTES = 8 << 20
_MAX_SHEBANG = 256


def find_environment(argv: Sequence[str], env: Mapping[str, str], workdir: str) -> str:
    """Return the virtual environment of a program if it lacks bytecode; else an empty text.

    A program that writes none, or elsewhere, is left alone.

    Args:
        argv: the program and its arguments.
        env: its environment.
        workdir: the start of a relative path.
    """
    if any(env.get(name) for name in _VARIABLES):
        return ""
    if "/" in argv[0]:
        program: str | None = os.path.normpath(Path(workdir, argv[0]))
    else:
        program = shutil.which(argv[0], path=env.get("PATH"))
    if program is None:
        return ""
    root = Path(program).parent.parent
    if not Path(root, "pyvenv.cfg").is_file() or not _runs_python(program, argv):
        return ""
    for folder in root.glob("lib/python3*/site-packages"):
        if _lacks_bytecode(str(folder), folder.stat().st_mtime_ns):
            return str(root)
    return ""


def _runs_python(program: str, argv: Sequence[str]) -> bool:
    if _PYTHON.fullmatch(Path(program).name):
        options = []
        for word in argv[1:]:
            if not word.startswith("-") or word in ("-c", "-m"):
                break
            options.append(word)
        return not any(_NO_BYTECODE.fullmatch(word) for word in options)
    try:
        with Path(program).open("rb") as file:
            head = file.read(_MAX_SHEBANG)
    except OSError:
        return False
    return head.startswith(b"#!") and b"python" in head.partition(b"\n")[0]


@lru_cache(maxsize=64)
def _lacks_bytecode(folder: str, _changed: int) -> bool:
    """Return whether hardly any package has bytecode; once for each change of the entries.

    The program finds bytecode that the machine's Python has written: with a folder of its
    own it would compile all of it once more.
    """
    packages = [path.parent for path in Path(folder).glob("*/__init__.py")]
    used = [package for package in packages if package.name not in _INSTALLERS]
    compiled = sum((package / "__pycache__").is_dir() for package in used)
    return compiled * _MIN_COMPILED < len(used)


class BytecodeCache:
    """Bytecode of the environments of a cluster.

    Args:
        folder: a private folder, made on first use.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept: dict[str, set[str]] = {}
        """The files of each environment, relative to its folder."""
        self._open: list[ContainerBytecode] = []
        self._count = 0

    def open(self, environment: str, hidden: Sequence[str]) -> ContainerBytecode:
        """Return the bytecode of a new container, with that of all earlier ones.

        Args:
            environment: as `find_environment` returns it.
            hidden: paths at which the container has other files than the machine.

        Raises:
            OSError: the folder cannot be made.
        """
        for other in self._open:
            if other.environment == environment:
                self.keep(other)
        self._count += 1
        folder = self._folder / f"container-{self._count}"
        _make_folder(folder)
        own = ContainerBytecode(self, environment, folder, tuple(hidden))
        source = self._get_folder(environment)
        made: set[Path] = set()
        for name in self._kept.get(environment, ()):
            target = folder / name
            if target.parent not in made:
                _make_folders(folder, target.parent)
                made.add(target.parent)
            os.link(source / name, target)
        self._open.append(own)
        return own

    def _get_folder(self, environment: str) -> Path:
        return self._folder / sha256(os.fsencode(environment)).hexdigest()[:16]

    def keep(self, own: ContainerBytecode) -> None:
        """Keep new files of a container, which may still run."""
        kept = self._kept.setdefault(own.environment, set())
        target = self._get_folder(own.environment)
        for name, data in _read_new(own.folder, own.hidden, kept):
            if len(kept) >= _MAX_FILES:
                return
            path = target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            path.chmod(0o644)
            kept.add(name)

    def close(self, own: ContainerBytecode) -> None:
        """Keep new files of a container that has ended, and remove its folder; idempotent."""
        if own in self._open:
            self._open.remove(own)
            with suppress(OSError):
                self.keep(own)
            shutil.rmtree(own.folder, ignore_errors=True)


class ContainerBytecode:
    """The folder in which a container has its bytecode.

    Args:
        environment: the virtual environment.
        folder: the folder on the machine.
        hidden: paths at which the container has other files than the machine.
    """

    def __init__(
        self, cache: BytecodeCache, environment: str, folder: Path, hidden: tuple[str, ...]
    ) -> None:
        self.environment = environment
        self.folder = folder
        self.hidden = hidden
        self._cache = cache

    def close(self) -> None:
        """Keep what is new, and remove the folder."""
        self._cache.close(self)


def _make_folder(path: Path) -> None:
    """Make a folder for containers of all users."""
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o777)


def _make_folders(top: Path, path: Path) -> None:
    missing = []
    while path != top and not path.exists():
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        _make_folder(folder)


def _read_new(folder: Path, hidden: Sequence[str], kept: set[str]) -> Iterator[tuple[str, bytes]]:
    """Yield new bytecode of the machine's installations, by its path below a container's folder.

    The container may have put anything there: links are not followed.
    """
    for path, _, names, fd in os.fwalk(folder):
        source_folder = f"/{os.path.relpath(path, folder)}"
        if not _INSTALLED.search(f"{source_folder}/"):
            continue
        if any(f"{source_folder}/".startswith(f"{place}/") for place in hidden):
            continue
        for name in names:
            match = _FILE.fullmatch(name)
            relative = f"{source_folder[1:]}/{name}"
            if match is None or relative in kept:
                continue
            with suppress(OSError):
                data = _read_file(name, fd)
                if _is_of(data, f"{source_folder}/{match[1]}.py"):
                    yield relative, data


def _read_file(name: str, folder: int) -> bytes:
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    with open(fd, "rb") as file:  # noqa: PTH123 - of a descriptor
        status = os.fstat(fd)
        is_small = stat.S_ISREG(status.st_mode) and status.st_size <= _MAX_BYTES
        return file.read(_MAX_BYTES) if is_small else b""


def _is_of(data: bytes, source: str) -> bool:
    """Return whether bytecode is that of a file of the machine, as Python itself decides."""
    if len(data) < _HEADER.size:
        return False
    _, flags, changed, size = _HEADER.unpack_from(data)
    status = Path(source).stat()
    mask = 0xFFFFFFFF
    return (flags, changed, size) == (0, int(status.st_mtime) & mask, status.st_size & mask)
