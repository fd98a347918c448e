"""Inputs of an environment that stays: code, files, programs of images and values, as digests.

Code is read, not run: the statements of the file that the function names, and the files of the
project that these import. Files that the function reads are seen by an audit hook of Python, those
that a program reads where they are its arguments.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import os
import re
import shutil
import sys
import threading
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pytest_kwait.simulator.protocol.image_mapping import ImageMapping

_LIBRARY_FOLDERS = ("__pycache__", "site-packages", "node_modules")
_SCRIPT_IMPORT = re.compile(rb"^from ([\w.]+) import", re.MULTILINE)
"""The import of a script that an installer has made for an entry point."""

_VARIABLE = re.compile(r"""["']([A-Z][A-Z0-9_]+)["']""")
"""A text that may be the name of a variable of the environment."""

_MAX_SCRIPT_BYTES = 10_000
_MAX_PATH_LENGTH = 1_000


class Project:
    """The folder whose files are inputs: the repository of the tests, or their root directory.

    Args:
        folder: the root directory of the tests.
    """

    def __init__(self, folder: Path) -> None:
        folder = folder.resolve()
        places = (folder, *folder.parents)
        self.root = next((place for place in places if (place / ".git").exists()), folder)
        self.title = Path(self.root.name, folder.relative_to(self.root)).as_posix()
        """The root directory as it is named in a cluster: with the name of the repository."""

    def name_of(self, path: Path) -> str:
        """Return the name of a file or folder in the project; empty for others.

        Hidden ones and those of libraries are no part of it.
        """
        try:
            name = path.resolve().relative_to(self.root)
        except (OSError, ValueError):
            return ""
        if any(part[0] == "." or part in _LIBRARY_FOLDERS for part in name.parts):
            return ""
        return name.as_posix()

    def digests(self, paths: Iterable[Path]) -> dict[str, str]:
        """Return the digests of those paths that are in the project, by name."""
        names = {self.name_of(path) for path in paths} - {"", "."}
        return {name: self.digest(name) for name in sorted(names)}

    def digest(self, name: str) -> str:
        """Return the digest of a file, or of all files of a folder; empty if it is not there.

        Of a name that ends with a slash, those of its files and folders alone.
        """
        path = self.root / name
        if name.endswith("/"):
            names = map(self.name_of, path.iterdir()) if path.is_dir() else ()
            return digest_text("\n".join(sorted(filter(None, names)))) if path.is_dir() else ""
        if path.is_dir():
            files = [file for file in sorted(path.rglob("*")) if file.is_file()]
            return digest_text(json.dumps(list(self.digests(files).items())))
        try:
            return _digest(path.read_bytes())
        except OSError:
            return ""


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]


def digest_text(text: str) -> str:
    """Return a short digest of a text."""
    return _digest(text.encode(errors="surrogatepass"))


def describe_change(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Return the first input that differs, as a sentence; empty for none."""
    for name in sorted({*before, *now}):
        if name not in before:
            return f"{name} is new"
        if not now.get(name):
            return f"{name} is gone"
        if before[name] != now[name]:
            return f"{name} has changed"
    return ""


def digest_value(value: object, project: Project) -> str:
    """Return the digest of what can be known of a value without its library.

    A path is its name in the project, a function its instructions, a `Kwait` its namespace, any
    other object its type.
    """

    def describe(part: Any) -> object:
        if isinstance(part, Path):
            return project.name_of(part) or "a path"
        if isinstance(part, FunctionType):
            return _list_instructions(part.__code__)
        if isinstance(part, set | frozenset):
            return sorted(map(repr, part))
        if isinstance(part, bytes):
            return part.hex()
        namespace = getattr(part, "namespace", None)
        return namespace if isinstance(namespace, str) else f"a {type(part).__qualname__}"

    try:
        return digest_text(json.dumps(value, sort_keys=True, default=describe))
    except (TypeError, ValueError, RecursionError):
        return digest_text(f"a {type(value).__qualname__}")


def _list_instructions(code: CodeType) -> list[Any]:
    """Return the instructions of code and of the functions in it, as JSON values."""
    constants: list[Any] = []
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            constants.append(_list_instructions(constant))
        else:
            # The order of a set differs between processes.
            parts = constant if isinstance(constant, frozenset) else [constant]
            constants.append(sorted(map(repr, parts)))
    return [code.co_code.hex(), code.co_names, constants]


class _Imports:
    """The files of a project that code imports, directly or through other files of it.

    Args:
        folders: where modules are looked for, before the path of this process.
    """

    def __init__(self, project: Project, folders: Iterable[Path]) -> None:
        self._project = project
        self._folders = [*folders, *(Path(entry) for entry in sys.path if entry)]
        self.files: dict[Path, None] = {}

    def add_file(self, file: Path) -> None:
        """Add a file with all that it imports."""
        if file in self.files or not self._project.name_of(file):
            return
        self.files[file] = None
        if file.suffix == ".py":
            try:
                tree = ast.parse(file.read_bytes())
            except (OSError, SyntaxError, ValueError):
                return
            self.add_imports(tree, file)

    def add_imports(self, tree: ast.AST, file: Path) -> None:
        """Add the files of the imports in code of a file."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self.add_module(alias.name)
            elif isinstance(node, ast.ImportFrom) and node.level:
                folder = file.parents[node.level - 1]
                self._add_below([folder], node.module or "", node.names)
            elif isinstance(node, ast.ImportFrom):
                self.add_module(node.module or "", node.names)

    def add_module(self, name: str, members: Iterable[ast.alias] = ()) -> None:
        """Add a module, its packages, and those members that are modules."""
        top = name.partition(".")[0]
        places = [folder for folder in self._folders if _list_module_files(folder / top)]
        if places and not self._project.name_of(places[0] / top):
            return  # of a library, which is in front
        if not places:
            try:
                spec = importlib.util.find_spec(top)
            except (ImportError, ValueError):
                return
            found = list(spec.submodule_search_locations or [spec.origin or ""]) if spec else []
            places = [Path(place).parent for place in found]
        self._add_below(places[:1], name, members)

    def _add_below(self, folders: list[Path], name: str, members: Iterable[ast.alias]) -> None:
        for folder in folders:
            place = folder
            for part in filter(None, name.split(".")):
                place /= part
                self._add_all(place)
            for member in members:
                self._add_all(place / member.name)

    def _add_all(self, place: Path) -> None:
        for file in _list_module_files(place):
            self.add_file(file)


def _list_module_files(place: Path) -> list[Path]:
    """Return the files of a module, given by its path without an ending."""
    candidates = (place.with_name(f"{place.name}.py"), place / "__init__.py", place / "__main__.py")
    return [file for file in candidates if file.is_file()]


def list_code(function: Callable[..., Any], project: Project) -> dict[str, str]:
    """Return digests of the code of a function, and of the files that it imports.

    Of its own file those statements count that it names, directly or through others, with the
    values of constants.
    """
    file = Path(function.__code__.co_filename)
    title = f"the function {function.__name__}"
    imports = _Imports(project, [file.parent])
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return {title: _digest(function.__code__.co_code)}
    binding: dict[str, list[ast.stmt]] = {}
    for statement in tree.body:
        for name in _bound_names(statement):
            binding.setdefault(name, []).append(statement)
    line = function.__code__.co_firstlineno
    pending = [each for each in tree.body if _first_line(each) <= line <= (each.end_lineno or 0)]
    # Fixtures are compared by their values.
    own_names = set(function.__code__.co_varnames) if len(pending) == 1 else set()
    used: dict[ast.stmt, None] = {}
    values: dict[str, str] = {}
    while pending:
        statement = pending.pop()
        if statement in used:
            continue
        local_names: set[str] = set() if used else own_names
        used[statement] = None
        imports.add_imports(statement, file)
        for node in ast.walk(statement):
            if not isinstance(node, ast.Name) or node.id in local_names:
                continue
            if node.id in binding:
                pending += binding[node.id]
                value = function.__globals__.get(node.id)
                if not (callable(value) or isinstance(value, type(sys))):
                    values[node.id] = digest_value(value, project)
    cells = function.__closure__ or ()
    values |= {
        name: digest_value(cell.cell_contents, project)
        for name, cell in zip(function.__code__.co_freevars, cells, strict=True)
    }
    text = "\n".join(sorted(map(ast.unparse, used)))
    own = digest_text(json.dumps([text, sorted(values.items())]))
    texts = [text, *(file.read_text("utf-8", "replace") for file in imports.files)]
    return {title: own, **_list_variables(texts), **project.digests(imports.files)}


def _list_variables(texts: Iterable[str]) -> dict[str, str]:
    """Return digests of the variables of the environment that code may read."""
    names = {
        name
        for text in texts
        if "environ" in text or "getenv" in text
        for name in _VARIABLE.findall(text)
    }
    return {f"${name}": digest_text(os.environ.get(name, "")) for name in sorted(names)}


def _first_line(statement: ast.stmt) -> int:
    decorators = getattr(statement, "decorator_list", [])
    lines = [int(decorator.lineno) for decorator in decorators]
    return min([statement.lineno, *lines])


def _bound_names(statement: ast.stmt) -> set[str]:
    """Return the names that a statement of a module binds."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    names = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
    return names


def list_program(mapping: ImageMapping, project: Project) -> dict[str, str]:
    """Return digests of the program of an image: its mapping, and its files in the project."""
    workdir = Path(mapping.workdir)
    python_path = filter(None, mapping.env.get("PYTHONPATH", "").split(os.pathsep))
    words = (*mapping.command, *mapping.args)
    places = [workdir / word for word in words if "/" in word or word != words[0]]
    folders = [place for place in places if place.is_dir()]
    files = [place for place in places if place.is_file()]
    searched = (*(file.parent for file in files), workdir, *(workdir / p for p in python_path))
    imports = _Imports(project, searched)
    program = shutil.which(words[0], path=mapping.env.get("PATH")) if words else None
    if program is not None:
        script = Path(program)
        if script.stat().st_size <= _MAX_SCRIPT_BYTES:
            for module in _SCRIPT_IMPORT.findall(script.read_bytes()):
                imports.add_module(module.decode())
    for before, word in pairwise(words):
        if before == "-m":
            imports.add_module(word)
    for file in files:
        imports.add_file(file)
    folders += map(Path, mapping.files.values())
    title = f"the mapping of image {mapping.pattern}"
    own = digest_text(json.dumps(mapping.to_json(), sort_keys=True))
    return {title: own, **project.digests([*imports.files, *folders])}


_EVENTS = frozenset(("open", "os.listdir", "os.scandir", "subprocess.Popen"))
_OWN_READERS = ("<frozen importlib", "tokenize.py")
"""Parts of Python that read code, for imports and tracebacks."""


class _FileEvents:
    """The events of one thread that name files."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.events: list[tuple[str, tuple[Any, ...]]] = []


_recorders: list[_FileEvents] = []
_hooks: list[Callable[..., None]] = []
"""The hook, once it is needed: Python cannot remove it."""


def _record_event(event: str, args: tuple[Any, ...]) -> None:
    if not _recorders or event not in _EVENTS:
        return
    reader = sys._getframe(1).f_code.co_filename
    if reader.startswith(_OWN_READERS[0]) or reader.endswith(_OWN_READERS[1]):
        return
    for recorder in _recorders:
        if recorder.thread == threading.get_ident():
            recorder.events.append((event, args))


@contextmanager
def recorded_files(project: Project) -> Iterator[Callable[[], dict[str, str]]]:
    """Record the files of a project that this thread reads during the block.

    Yields:
        a function that returns their digests by name. The name of a folder whose entries were
        listed ends with a slash.
    """
    if not _hooks:
        _hooks.append(_record_event)
        sys.addaudithook(_record_event)
    recorder = _FileEvents()
    folder = Path.cwd()
    _recorders.append(recorder)
    try:
        yield lambda: _digest_read(recorder.events, folder, project)
    finally:
        _recorders.remove(recorder)


def _digest_read(
    events: Iterable[tuple[str, tuple[Any, ...]]], folder: Path, project: Project
) -> dict[str, str]:
    """Return the digests of what events name, but for files that were written to.

    Args:
        folder: the start of relative paths.
    """
    read, listed, written = set(), set(), set()
    for event, args in list(events):
        if event == "subprocess.Popen":
            read |= _list_argument_paths(args[1], Path(os.fsdecode(args[2]) if args[2] else folder))
        elif isinstance(args[0], str | bytes | os.PathLike):
            path = folder / os.fsdecode(args[0])
            if event != "open":
                listed.add(path)
            elif args[2] & (os.O_WRONLY | os.O_RDWR):
                written.add(path)
            else:
                read.add(path)
    names = {f"{project.name_of(path)}/" for path in listed if project.name_of(path)}
    files = (path for path in read - written if path.exists())
    return project.digests(files) | {name: project.digest(name) for name in names}


def _list_argument_paths(argv: Any, folder: Path) -> set[Path]:
    """Return the paths that the arguments of a program may name, also behind an `=`."""
    words = argv.split() if isinstance(argv, str) else map(os.fsdecode, argv)
    parts = {part for word in words for part in (word, word.partition("=")[2])}
    return {folder / part for part in parts if part and len(part) < _MAX_PATH_LENGTH}
