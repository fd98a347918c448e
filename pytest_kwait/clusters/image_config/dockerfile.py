"""Dockerfiles and Containerfiles: the configuration of the image that a stage makes.

Nothing is built, so an image of a registry that a stage starts from has an empty configuration.

Of the libraries, dockerfile-parse (BSD, last released in 2023, without types) knows no heredocs and
no stages by name, and dockerfile needs a compiler of Go.

Source: buildkit frontend/dockerfile/parser/parser.go, frontend/dockerfile/instructions/parse.go,
frontend/dockerfile/dockerfile2llb/convert.go.
"""

from __future__ import annotations

import json
import platform
import posixpath
import re
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.clusters.image_config.config import ImageConfig, ImageConfigError, format_names
from pytest_kwait.clusters.image_config.variables import expand_word, split_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""The `PATH` of an image that sets none. Source: buildkit util/system/path.go."""
_SHELL = ("/bin/sh", "-c")
_INSTRUCTIONS = (
    "ADD", "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL",
    "MAINTAINER", "ONBUILD", "RUN", "SHELL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR",
)  # fmt: skip
_WITH_HEREDOCS = ("ADD", "COPY", "RUN")
_HEREDOC = re.compile(r"\d*<<(-?)([^<]+)")
_DIRECTIVE = re.compile(r"#\s*([A-Za-z][A-Za-z0-9]*)\s*=\s*(.+?)\s*")
_DIRECTIVES = ("check", "escape", "syntax")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_MACHINES = {"x86_64": "amd64", "AMD64": "amd64", "aarch64": "arm64"}
# Source: buildkit frontend/dockerfile/dockerfile2llb/convert.go, `proxyEnvFromBuildArgs`.
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY")


def get_architecture() -> str:
    """Return this machine's architecture as images name it."""
    machine = platform.machine()
    return _MACHINES.get(machine, machine)


class _Instruction(NamedTuple):
    """An instruction in one line.

    Args:
        line: the number of its first line.
        name: its name in capitals.
        text: its arguments.
    """

    line: int
    name: str
    text: str


@dataclass
class _Stage:
    """A stage of a build.

    Args:
        name: its name in small letters; empty without one.
        config: the configuration so far.
        shell: the shell of commands that are no lists.
        args: the values of its `ARG`s.
        has_cmd: whether it has a `CMD` of its own.
    """

    name: str
    config: ImageConfig = field(default_factory=ImageConfig)
    shell: tuple[str, ...] = _SHELL
    args: dict[str, str] = field(default_factory=dict)
    has_cmd: bool = False

    @property
    def variables(self) -> dict[str, str]:
        """The variables of its instructions."""
        return {"PATH": DEFAULT_PATH, **self.args, **self.config.env}


def read_dockerfile(text: str, target: str, build_args: Mapping[str, str]) -> ImageConfig:
    """Return the configuration of a stage's image.

    Args:
        text: the file.
        target: name or number of the stage; empty for the last one.
        build_args: values of `ARG` instructions.

    Raises:
        ImageConfigError: it is no Dockerfile, has no such stage, or no such `ARG`.
    """
    build = _Build(text, build_args)
    build.check_build_args()
    return build.find_stage(target).config


class _Build:
    """The stages of a Dockerfile."""

    def __init__(self, text: str, build_args: Mapping[str, str]) -> None:
        self._given = build_args
        self._declared: set[str] = set()
        self._stages: list[_Stage] = []
        architecture = get_architecture()
        here = f"linux/{architecture}"
        self._predefined = {
            "BUILDPLATFORM": here, "BUILDOS": "linux", "BUILDARCH": architecture,
            "BUILDVARIANT": "", "TARGETPLATFORM": here, "TARGETOS": "linux",
            "TARGETARCH": architecture, "TARGETVARIANT": "",
        }  # fmt: skip
        self._globals: dict[str, str] = dict(self._predefined)
        lines = text.removeprefix("\ufeff").splitlines()
        self._escape = _find_escape(lines)
        for instruction in _list_instructions(lines, self._escape):
            try:
                self._apply(instruction)
            except ImageConfigError as error:
                raise ImageConfigError(f"line {instruction.line}: {error}") from None
        if not self._stages:
            raise ImageConfigError("it has no FROM: use a Dockerfile, an OCI layout or an archive")

    def check_build_args(self) -> None:
        """Refuse values that no `ARG` takes.

        Raises:
            ImageConfigError: there is no `ARG` of a name.
        """
        known = {*self._declared, *self._predefined, *_PROXIES, *map(str.lower, _PROXIES)}
        for name in self._given:
            if name not in known:
                names = format_names(sorted(self._declared))
                raise ImageConfigError(f"it has no ARG {name} for build_args; there are: {names}")

    def find_stage(self, target: str) -> _Stage:
        """Return a stage by its name or number; the last one without a target.

        Raises:
            ImageConfigError: there is no such stage.
        """
        if not target:
            return self._stages[-1]
        for stage in reversed(self._stages):
            if stage.name == target.lower():
                return stage
        if target.isdecimal() and int(target) < len(self._stages):
            return self._stages[int(target)]
        names = [stage.name or str(number) for number, stage in enumerate(self._stages)]
        raise ImageConfigError(f"it has no stage {target!r}: the stages are {format_names(names)}")

    def _apply(self, instruction: _Instruction) -> None:
        name, text = instruction.name, instruction.text
        if name not in _INSTRUCTIONS:
            near = get_close_matches(name, _INSTRUCTIONS, 1)
            hint = f", did you mean {near[0]}?" if near else ""
            raise ImageConfigError(f"it is no Dockerfile: unknown instruction {name!r}{hint}")
        if not text:
            raise ImageConfigError(f"{name} needs an argument")
        if name == "FROM":
            self._stages.append(self._start_stage(text))
        elif name == "ARG":
            self._declare(text)
        elif not self._stages:
            raise ImageConfigError(f"{name} stands before the first FROM")
        else:
            self._change(self._stages[-1], name, text)

    def _start_stage(self, text: str) -> _Stage:
        words = [word for word in split_words(text, self._escape) if not word.startswith("--")]
        is_named = len(words) == 3 and words[1].lower() == "as"
        if len(words) != 1 and not is_named:
            raise ImageConfigError("FROM needs one or three arguments, as FROM python:3.13 AS web")
        base = expand_word(words[0], self._globals, self._escape)
        if not base:
            raise ImageConfigError(f"the image of FROM is empty: {words[0]}")
        name = words[2].lower() if is_named else ""
        for stage in reversed(self._stages):
            if stage.name and stage.name == base.lower():
                return _Stage(name, stage.config, stage.shell)
        return _Stage(name)

    def _declare(self, text: str) -> None:
        """Set the values of `ARG`s: given ones, defaults, or those in front of the first FROM."""
        stage = self._stages[-1] if self._stages else None
        values = self._globals if stage is None else stage.args
        for word in split_words(text, self._escape):
            name, equals, default = word.partition("=")
            _check_name(name)
            self._declared.add(name)
            variables = self._globals if stage is None else stage.variables
            if name in self._given:
                values[name] = self._given[name]
            elif equals:
                values[name] = expand_word(default, variables, self._escape)
            elif stage is not None and name in self._globals:
                values[name] = self._globals[name]

    def _change(self, stage: _Stage, name: str, text: str) -> None:
        config = stage.config
        if name == "ENV":
            stage.config = replace(config, env={**config.env, **self._read_env(stage, text)})
        elif name == "WORKDIR":
            path = expand_word(text, stage.variables, self._escape)
            whole = posixpath.normpath(posixpath.join(config.workdir, path))
            stage.config = replace(config, workdir=whole.replace("//", "/"))
        elif name == "USER":
            user = expand_word(text, stage.variables, self._escape)
            stage.config = replace(config, user=user)
        elif name == "STOPSIGNAL":
            stop_signal = expand_word(text, stage.variables, self._escape)
            stage.config = replace(config, stop_signal=stop_signal)
        elif name == "ENTRYPOINT":
            cmd = config.cmd if stage.has_cmd else ()
            entrypoint = _read_command(text, stage.shell)
            # An empty word takes the entrypoint of the base away.
            entrypoint = () if entrypoint == ("",) else entrypoint
            stage.config = replace(config, entrypoint=entrypoint, cmd=cmd)
        elif name == "CMD":
            stage.has_cmd = True
            stage.config = replace(config, cmd=_read_command(text, stage.shell))
        elif name == "SHELL":
            shell = _read_list(text)
            if not shell:
                raise ImageConfigError('SHELL needs a list, as ["/bin/bash", "-c"]')
            stage.shell = shell

    def _read_env(self, stage: _Stage, text: str) -> dict[str, str]:
        """Return variables of `NAME=VALUE ...`, or of the older form `NAME VALUE`."""
        words = split_words(text, self._escape)
        if "=" in words[0]:
            pairs = [word.partition("=") for word in words]
        else:
            name, *rest = text.split(None, 1)
            if not rest:
                raise ImageConfigError("ENV needs NAME=VALUE, or a name and a value")
            pairs = [(name, "=", rest[0])]
        found: dict[str, str] = {}
        for name, equals, value in pairs:
            if not equals:
                raise ImageConfigError(f"ENV needs NAME=VALUE, and {name!r} is none")
            variables = stage.variables
            name = expand_word(name, variables, self._escape)
            if not name:
                raise ImageConfigError("the name of a variable of ENV is empty")
            found[name] = expand_word(value, variables, self._escape)
        return found


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ImageConfigError(f"ARG needs NAME or NAME=VALUE, and {name!r} is no name")


def _find_escape(lines: list[str]) -> str:
    """Return the escape character that a directive at the top names; a backslash without one.

    Raises:
        ImageConfigError: it is another character.
    """
    for number, line in enumerate(lines, start=1):
        match = _DIRECTIVE.fullmatch(line.strip())
        if match is None or match[1].lower() not in _DIRECTIVES:
            break
        if match[1].lower() == "escape":
            if match[2] not in ("\\", "`"):
                valid = r"use a backslash or `"
                raise ImageConfigError(f"line {number}: escape={match[2]} is invalid: {valid}")
            return match[2]
    return "\\"


def _list_instructions(lines: list[str], escape: str) -> Iterator[_Instruction]:
    """Yield the instructions, each in one line, without comments and heredocs.

    Raises:
        ImageConfigError: a heredoc has no end.
    """
    sign = re.escape(escape)
    continued = re.compile(rf"(?s)(^|.*[^{sign}]){sign}[ \t]*")
    rest = enumerate(lines, start=1)
    for number, line in rest:
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        whole = line.lstrip()
        while (match := continued.fullmatch(whole)) is not None:
            whole = match[1]
            following = next(
                (each for _, each in rest if each.strip() and not each.lstrip().startswith("#")),
                None,
            )
            if following is None:
                break
            whole += following
        if not whole.strip():
            continue
        name, *arguments = whole.strip().split(None, 1)
        instruction = _Instruction(number, name.upper(), arguments[0] if arguments else "")
        _skip_heredocs(instruction, rest, escape)
        yield instruction


def _skip_heredocs(instruction: _Instruction, rest: Iterator[tuple[int, str]], escape: str) -> None:
    name, text = instruction.name, instruction.text
    if name == "ONBUILD":
        name = text.partition(" ")[0].upper()
    if name not in _WITH_HEREDOCS or "<<" not in text:
        return
    for word in split_words(text, escape):
        match = _HEREDOC.fullmatch(word)
        if match is None:
            continue
        end = match[2].strip("\"'")
        if not any((line.lstrip("\t") if match[1] else line) == end for _, line in rest):
            raise ImageConfigError(f"line {instruction.line}: the heredoc {end} has no end")


def _read_list(text: str) -> tuple[str, ...] | None:
    """Return the words of a JSON list; None for another text.

    Raises:
        ImageConfigError: it is a list of something else than texts.
    """
    if not text.startswith("["):
        return None
    try:
        words = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not all(isinstance(word, str) for word in words):
        raise ImageConfigError(f"use a list of texts only, and not {text}")
    return tuple(words)


def _read_command(text: str, shell: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of a list, or a shell with the text."""
    words = _read_list(text)
    return (*shell, text) if words is None else words
