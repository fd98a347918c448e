"""Image mappings: programs of this machine that containers of an image run.

A pattern is an image name, with `*` for any part; without a tag it matches every tag and digest.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.simulator.linear_regex import Regex, RegexLimitError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_DOMAIN, _LIBRARY = "docker.io/", "library/"
_PATTERN = re.compile(r"[A-Za-z0-9*][A-Za-z0-9._/:*@-]*")
_VARIABLE = re.compile(r"[^=\0]+")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?")
_PYTHON = re.compile(r"python[0-9.]*")
_SIGNAL = re.compile(
    r"(?P<number>[0-9]{1,3})|(SIG)?(?P<name>RTMIN|RTMAX|[A-Z0-9]+)(?P<offset>[+-][0-9]{1,2})?"
)
_SIGNALS = 65
_PATTERN_EXAMPLE = "use the name of an image with * for any part, for example shop/web:*"
_OPTION_EXAMPLE = "use PATTERN=COMMAND, for example shop/web:*=python -m shop.web"


class ImageName(Protocol):
    """The parts of an image's full name."""

    @property
    def domain(self) -> str:
        """The registry, for example `docker.io`."""

    @property
    def path(self) -> str:
        """The repository, for example `library/busybox`."""

    @property
    def tag(self) -> str:
        """The tag; empty if there is only a digest."""

    @property
    def digest(self) -> str:
        """The digest; empty without one."""


@dataclass(frozen=True)
class ImageMapping:
    """The program of an image, in place of its contents.

    Args:
        pattern: the names of the images.
        command: the entrypoint, which a container's `command` replaces; empty for an image without.
        args: its default arguments, which a container's `args` replace.
        env: the environment variables, with `PATH`.
        workdir: an absolute path.
        user: `USER[:GROUP]`, names or IDs; empty for the user of this process.
        writable: absolute paths of this machine that programs may write to.
        files: further files and folders by their absolute path in the container.
        stop_signal: the name or number of the signal that ends it; empty for `SIGTERM`.
    """

    pattern: str
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str = "/"
    user: str = ""
    writable: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    stop_signal: str = ""

    @cached_property
    def _matcher(self) -> tuple[Regex, Regex | None]:
        name, version = _split_pattern(self.pattern)
        whole = None if version in ("", ":*") else _compile(version)
        return _compile(name), whole

    @property
    def specificity(self) -> int:
        """The number of literal characters of the pattern; the most specific mapping applies."""
        return len(self.pattern.replace("*", ""))

    def matches(self, image: ImageName) -> bool:
        """Return whether containers of an image run this program."""
        name, version = self._matcher
        if not any(_is_match(name, image_name) for image_name in _list_names(image)):
            return False
        if version is None:
            return True
        digest = f"@{image.digest}" if image.digest else ""
        tag = f":{image.tag}" if image.tag else ""
        return any(_is_match(version, part) for part in (tag, digest, tag + digest) if part)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {
            "pattern": self.pattern,
            "command": list(self.command),
            "args": list(self.args),
            "env": dict(self.env),
            "workdir": self.workdir,
            "user": self.user,
            "writable": list(self.writable),
            "files": dict(self.files),
            "stop_signal": self.stop_signal,
        }


def _split_pattern(pattern: str) -> tuple[str, str]:
    """Return the name of a pattern, and its tag or digest with the separator."""
    name, at, digest = pattern.partition("@")
    head, colon, tail = name.rpartition(":")
    tag = ""
    if colon and "/" not in tail:
        name, tag = head, f":{tail}"
    return name, tag + at + digest


def _compile(pattern: str) -> Regex:
    pieces: list[str] = []
    for char in pattern:
        pieces += (".", "*") if char == "*" else (re.escape(char),)
    return Regex(pieces, around=(r"\A", r"\Z"))


def _is_match(expression: Regex, text: str) -> bool:
    """Return whether an expression matches; no name that is too long to know has a mapping."""
    try:
        return expression.is_in(text)
    except RegexLimitError:
        return False


def _list_names(image: ImageName) -> list[str]:
    """Return the full name of an image without tag and digest, and its short forms."""
    names = [f"{image.domain}/{image.path}"]
    for prefix in (_DOMAIN, _LIBRARY):
        if names[-1].startswith(prefix):
            names.append(names[-1].removeprefix(prefix))
    return names


def make_image_mapping(
    pattern: object,
    command: object = (),
    *,
    args: object = (),
    env: object = None,
    workdir: str | Path | None = None,
    path: object = (),
    user: object = "",
    writable: object = (),
    files: object = None,
    stop_signal: object = "",
    source: str | None = None,
    folder: Path | str | None = None,
) -> ImageMapping:
    """Return a mapping of the given values, completed from this process.

    Args:
        pattern: the names of the images, for example `shop/web:*`.
        command: the entrypoint, as a list or as one text that is split as a shell does; an empty
            list for an image without one.
        args: its default arguments.
        env: environment variables; nothing of this process is inherited but `PATH`.
        workdir: the working directory; None for `folder`.
        path: folders in front of `PATH`; the folders of the command's Python and of this one
            follow them.
        user: `USER[:GROUP]`, or a number; empty for the user of this process.
        writable: files and folders of this machine that the program may change.
        files: further files and folders of this machine by their path in the container.
        stop_signal: the signal that ends it, by name or number; empty for `SIGTERM`.
        source: where the values come from, for messages.
        folder: the start of relative paths; None for the current directory.

    Raises:
        InvalidArgument: a value is invalid.
    """
    base = Path.cwd() / (folder or "")
    if not isinstance(pattern, str) or not _PATTERN.fullmatch(pattern):
        raise InvalidArgument("image", pattern, _PATTERN_EXAMPLE, source)
    what = f"image {pattern}"

    def resolve(path: str | Path) -> str:
        try:
            return os.path.normpath(base / Path(path).expanduser())
        except RuntimeError:
            raise InvalidArgument(what, str(path), "there is no such user", source) from None

    words = _read_command(what, command, source)
    variables = _read_env(what, env, source)
    folders = map(resolve, _read_words(f"{what}: path", path, source))
    search_path = variables.get("PATH", os.environ.get("PATH", os.defpath))
    if workdir is not None and not _is_path(workdir):
        raise InvalidArgument(f"{what}: workdir", workdir, "use the path of a folder", source)
    here = resolve(workdir or base)
    targets = {target: resolve(path) for target, path in _read_files(what, files, source).items()}
    pythons = [*_find_python_folders(words, here, targets), str(Path(sys.executable).parent)]
    variables["PATH"] = os.pathsep.join([*folders, *dict.fromkeys(pythons), search_path])
    if isinstance(user, int) and not isinstance(user, bool) and user >= 0:
        user = str(user)
    if not isinstance(user, str) or (user and not _USER.fullmatch(user)):
        valid = "use USER or USER:GROUP, each a name or a number, for example 1000 or web:web"
        raise InvalidArgument(f"{what}: user", user, valid, source)
    return ImageMapping(
        pattern,
        words,
        _read_words(f"{what}: args", args, source),
        variables,
        here,
        user,
        tuple(map(resolve, _read_words(f"{what}: writable", writable, source))),
        targets,
        _read_stop_signal(what, stop_signal, source),
    )


def _read_stop_signal(what: str, value: object, source: str | None) -> str:
    """Return the name of a signal with `SIG`, or its number.

    Source: moby/sys signal/signal.go, `ParseSignal`.
    """
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    match = _SIGNAL.fullmatch(text.upper()) if isinstance(text, str) else None
    if text == "":
        return ""
    if match is not None and match["number"] is not None and 0 < int(match["number"]) < _SIGNALS:
        return match["number"]
    if match is not None and f"SIG{match['name']}" in signal.Signals.__members__:
        return f"SIG{match['name']}{match['offset'] or ''}"
    valid = "use the name or number of a signal, for example SIGQUIT or SIGRTMIN+3"
    raise InvalidArgument(f"{what}: stop_signal", value, valid, source)


def _find_python_folders(
    words: Sequence[str], workdir: str, files: Mapping[str, str]
) -> Iterator[str]:
    """Yield the folder of the Python that a program names or that it is installed for.

    `python` and `python3` in a container are then the program's own, in a shell too.

    Args:
        words: the program and its arguments.
        workdir: the start of a relative path.
        files: files and folders of this machine by their path in the container.
    """
    if not words or "/" not in words[0]:
        return
    folder, name = os.path.split(os.path.normpath(os.path.join(workdir, words[0])))  # noqa: PTH118
    installation = os.path.dirname(folder)  # noqa: PTH120
    for target, source in files.items():
        if f"{installation}/".startswith(f"{target}/"):
            installation = source + installation.removeprefix(target)
            break
    if _PYTHON.fullmatch(name) or Path(installation, "pyvenv.cfg").is_file():
        yield folder


def _is_path(value: object) -> bool:
    return isinstance(value, str | os.PathLike) and bool(str(value))


def _read_command(what: str, command: object, source: str | None) -> tuple[str, ...]:
    if isinstance(command, str):
        try:
            words = tuple(shlex.split(command))
        except ValueError as error:
            why = f"{str(error).lower()}; quote it as for a shell"
            raise InvalidArgument(f"{what}: command", command, why, source) from None
    else:
        words = _read_words(f"{what}: command", command, source)
    if words[:1] == ("",) or (not words and isinstance(command, str)):
        valid = (
            'use a program and its arguments, for example ["python", "-m", "shop.web"], or [] for '
            "an image without an entrypoint"
        )
        raise InvalidArgument(f"{what}: command", command, valid, source)
    return words


def _read_words(what: str, value: object, source: str | None) -> tuple[str, ...]:
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise InvalidArgument(what, value, "use a list of texts", source)
    words = tuple(os.fspath(word) if isinstance(word, os.PathLike) else word for word in value)
    for word in words:
        if not isinstance(word, str) or "\0" in word:
            raise InvalidArgument(what, word, "use texts without NUL bytes", source)
    return words


def _read_env(what: str, env: object, source: str | None) -> dict[str, str]:
    if env is None:
        return {}
    if not isinstance(env, Mapping):
        raise InvalidArgument(f"{what}: env", env, 'use a mapping, as {"PORT": "8080"}', source)
    variables: dict[str, str] = {}
    for name, value in env.items():
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
            valid = "use the name of an environment variable"
            raise InvalidArgument(f"{what}: env", name, valid, source)
        if isinstance(value, os.PathLike):
            value = os.fspath(value)
        if not isinstance(value, str) or "\0" in value:
            valid = "use a text without NUL bytes"
            raise InvalidArgument(f"{what}: env {name}", value, valid, source)
        variables[name] = value
    return variables


def _read_files(what: str, files: object, source: str | None) -> dict[str, str]:
    if files is None:
        return {}
    if not isinstance(files, Mapping):
        raise InvalidArgument(f"{what}: files", files, 'use a mapping, as {"/app": "src"}', source)
    paths: dict[str, str] = {}
    for target, path in files.items():
        if not isinstance(target, str) or os.path.normpath(target) != target or target[:1] != "/":
            valid = "use an absolute path in the container, for example /app"
            raise InvalidArgument(f"{what}: files", target, valid, source)
        if not _is_path(path) or "\0" in f"{target}{path}":
            valid = "use the path of a file or folder"
            raise InvalidArgument(f"{what}: files {target}", path, valid, source)
        paths[target] = os.fspath(path)
    return paths


def parse_image_mapping(
    text: object, source: str | None = None, folder: Path | str | None = None
) -> ImageMapping:
    """Parse `PATTERN=COMMAND`, with a command as for a shell.

    Args:
        text: for example `shop/web:*=python -m shop.web`.
        source: where it comes from, for messages.
        folder: the working directory; None for the current directory.

    Raises:
        InvalidArgument: it has no such form.
    """
    pattern, equals, command = text.partition("=") if isinstance(text, str) else ("", "", "")
    if not equals or not pattern.strip() or not command.strip():
        raise InvalidArgument("image", text, _OPTION_EXAMPLE, source)
    return make_image_mapping(pattern.strip(), command, source=source, folder=folder)


def read_image_mapping(value: object) -> ImageMapping:
    """Return the mapping of a JSON object that `ImageMapping.to_json` has made.

    Raises:
        InvalidArgument: a field is missing, unknown or invalid.
    """
    names = [mapping_field.name for mapping_field in fields(ImageMapping)]
    if not isinstance(value, dict) or set(value) != set(names):
        raise InvalidArgument("image", value, f"use an object with {', '.join(names)}")
    what = f"image {value['pattern']}"
    if not isinstance(value["pattern"], str) or not _PATTERN.fullmatch(value["pattern"]):
        raise InvalidArgument("image", value["pattern"], _PATTERN_EXAMPLE)
    for name in ("workdir", "user", "stop_signal"):
        if not isinstance(value[name], str):
            raise InvalidArgument(f"{what}: {name}", value[name], "use a text")
    return ImageMapping(
        value["pattern"],
        _read_command(what, value["command"], None),
        _read_words(f"{what}: args", value["args"], None),
        _read_env(what, value["env"], None),
        value["workdir"],
        value["user"],
        _read_words(f"{what}: writable", value["writable"], None),
        _read_files(what, value["files"], None),
        _read_stop_signal(what, value["stop_signal"], None),
    )


class MappingConflictError(ValueError):
    """A pattern is mapped to another program; `str` names both."""


def _describe_conflict(new: ImageMapping, old: ImageMapping) -> str:
    name = next(
        mapping_field.name
        for mapping_field in fields(new)
        if getattr(new, mapping_field.name) != getattr(old, mapping_field.name)
    )
    before, after = (_format_field(getattr(mapping, name)) for mapping in (old, new))
    return (
        f'the pattern "{new.pattern}" is mapped already, with the {name} {before} instead of '
        f"{after}: map it once for all tests and workers, or undo the other mapping first"
    )


def _format_field(value: object) -> str:
    if isinstance(value, tuple):
        return shlex.join(value) or "()"
    return repr(value)


class ImageMappings:
    """The image mappings of one cluster; equal ones of several clients count as one.

    Args:
        mappings: those that hold as long as the cluster.

    Raises:
        MappingConflictError: two of them map a pattern to different programs.
    """

    def __init__(self, mappings: Iterable[ImageMapping] = ()) -> None:
        self._mappings: list[ImageMapping] = []
        for mapping in mappings:
            self.add(mapping)

    def __iter__(self) -> Iterator[ImageMapping]:
        return iter({mapping.pattern: mapping for mapping in self._mappings}.values())

    def add(self, mapping: ImageMapping) -> None:
        """Add a mapping for containers that start later.

        Raises:
            MappingConflictError: the pattern is mapped to something else.
        """
        for other_mapping in self._mappings:
            if other_mapping.pattern == mapping.pattern and other_mapping != mapping:
                raise MappingConflictError(_describe_conflict(mapping, other_mapping))
        self._mappings.append(mapping)

    def remove(self, mapping: ImageMapping) -> None:
        """Remove a mapping that was added; it stays while another client has added it too."""
        self._mappings.remove(mapping)

    def find(self, image: ImageName) -> ImageMapping | None:
        """Return the most specific mapping of an image; None if it is not mapped."""
        matches = [mapping for mapping in self._mappings if mapping.matches(image)]
        return max(matches, key=lambda mapping: mapping.specificity, default=None)

    def find_near_pattern(self, name: str) -> str:
        """Return the pattern that is most like an image's name; empty if none is."""
        patterns = [mapping.pattern for mapping in self._mappings]
        near = get_close_matches(name, patterns, n=1, cutoff=0.6)
        return near[0] if near else ""
