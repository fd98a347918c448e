"""Container scripts: scripted behaviour in place of a container's command.

A script is a line of `key=value`, in an annotation or in a rule set by a test.
"""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.times import to_seconds
from pytest_kwait.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kwait.apimachinery.selectors import LabelSelector
    from pytest_kwait.simulator.objects import Obj

_DURATION = "a duration as 500ms, 3s or 1m30s"
_DEFAULT_WORDS = {"start": "never", "ready": "never", "run": "forever"}
MAX_EXIT_CODE = 255
"""The largest exit code."""


class ScriptError(ValueError):
    """An invalid script; `str` names the value and the valid ones."""


@dataclass(frozen=True, slots=True)
class Script:
    """The scripted behaviour of a container; None leaves a part as it is.

    Args:
        pull: real seconds of an image pull, even of an image that is on the node.
        pull_error: the error of each image pull.
        start: real seconds until its creation; infinite for never.
        ready: real seconds from its start until it is ready, whatever its probes are; infinite
            for never.
        run: real seconds until it ends, in place of its command; infinite for never.
        exit: its exit code.
        reason: the reason of its terminated state.
        message: its termination message.
        log: the lines that it logs at its start.
    """

    pull: float | None = None
    pull_error: str | None = None
    start: float | None = None
    ready: float | None = None
    run: float | None = None
    exit: int | None = None
    reason: str | None = None
    message: str | None = None
    log: tuple[str, ...] | None = None

    def over(self, other: Script) -> Script:
        """Return this script, completed by another one."""
        own_fields = {
            field.name: value
            for field in fields(self)
            if (value := getattr(self, field.name)) is not None
        }
        return replace(other, **own_fields)

    @property
    def replaces_command(self) -> bool:
        """Return whether the script replaces the container's command."""
        return self.run is not None or self.exit is not None or self.log is not None


EMPTY = Script()


def parse_script(text: str) -> Script:
    """Parse a line of `key=value`.

    Raises:
        ScriptError: a key or value is invalid.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ScriptError(f"{text!r}: {str(error).lower()}") from None
    values: dict[str, object] = {}
    lines: list[str] = []
    for word in words:
        key, equals, value = word.partition("=")
        key = key.replace("-", "_")
        if not equals or key not in Script.__slots__:
            valid = ", ".join(field.name.replace("_", "-") for field in fields(Script))
            raise ScriptError(f"{word!r} is none of {valid}, each with = and its value")
        if key == "log":
            lines.append(value)
        elif key in values:
            raise ScriptError(f"{key} is given twice")
        else:
            values[key] = _parse_value(key, value)
    if lines:
        values["log"] = tuple(lines)
    return replace(EMPTY, **values)  # type: ignore[arg-type]  # each has its field's type


def script_from_mapping(fields: Mapping[str, object]) -> Script:
    """Parse the mapping of a rule; durations may be numbers.

    Raises:
        ScriptError: a key or value is invalid.
    """
    values: dict[str, object] = {}
    for key, value in fields.items():
        if key == "log" and isinstance(value, list):
            values[key] = tuple(str(line) for line in value)
        elif key in Script.__slots__ and isinstance(value, str | int | float):
            values[key] = _parse_value(key, str(value))
        else:
            raise ScriptError(f"{key}={value!r} is nothing that a script has")
    return replace(EMPTY, **values)  # type: ignore[arg-type]  # each has its field's type


def _parse_value(key: str, value: str) -> object:
    if key in ("pull", "start", "ready", "run"):
        return _parse_seconds(key, value)
    if key == "exit":
        if not (value.isascii() and value.isdigit() and int(value) <= MAX_EXIT_CODE):
            raise ScriptError(f"exit={value!r} is not an integer from 0 to {MAX_EXIT_CODE}")
        return int(value)
    if not value:
        raise ScriptError(f"{key.replace('_', '-')} is empty: give a text, or leave it out")
    return value


def _parse_seconds(key: str, value: str) -> float:
    word = _DEFAULT_WORDS.get(key)
    if word is not None and value == word:
        return math.inf
    try:
        return to_seconds(value)
    except InvalidArgument:
        alternative = f", or {word}" if word is not None else ""
        raise ScriptError(
            f"{key}={value!r} is not a duration: use {_DURATION}{alternative}"
        ) from None


@dataclass(frozen=True, slots=True, eq=False)
class ScriptRule:
    """A script for the containers that match.

    Args:
        namespace: the pod's namespace; empty for all.
        labels: the pod's labels.
        name: the pod's name; empty for all.
        container: the container's name; empty for all.
    """

    namespace: str
    labels: LabelSelector | None
    name: str
    container: str
    script: Script

    def is_for(self, pod: Obj, container: str) -> bool:
        """Return whether the rule matches a container of a pod."""
        metadata = pod["metadata"]
        return (
            self.namespace in ("", metadata["namespace"])
            and self.name in ("", metadata["name"])
            and self.container in ("", container)
            and (self.labels is None or self.labels.matches(metadata.get("labels") or {}))
        )


class ScriptRules:
    """The rules of one cluster; newer rules precede older ones."""

    def __init__(self) -> None:
        self._rules: list[ScriptRule] = []

    def add(self, rule: ScriptRule) -> None:
        """Add a rule for containers that start later."""
        self._rules.insert(0, rule)

    def remove(self, rule: ScriptRule) -> None:
        """Remove a rule."""
        self._rules.remove(rule)

    def script(self, pod: Obj, container: str) -> Script:
        """Return the script of a container."""
        script = EMPTY
        for rule in self._rules:
            if rule.is_for(pod, container):
                script = script.over(rule.script)
        return script
