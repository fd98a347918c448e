"""A configuration read from YAML: every unknown field and every wrong type at once."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar

import yaml

from pytest_kwait.scheduler.command.config_errors import CommandError, FieldError, invalid
from pytest_kwait.scheduler.command.configuration import (
    API_VERSION,
    KIND,
    ClientConnection,
    Configuration,
    LeaderElection,
    PluginConfig,
    PluginEntry,
    Plugins,
    PluginSet,
    Profile,
)
from pytest_kwait.scheduler.command.go_values import INT32, INT64, parse_duration, quote_go

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

__all__ = ["DecodedConfiguration", "decode_configuration", "find_section", "parse_yaml"]

_Part = TypeVar("_Part")

_PARTS: dict[str, type[Any]] = {
    "leaderElection": LeaderElection,
    "clientConnection": ClientConnection,
    "profile": Profile,
    "plugins": Plugins,
    "set": PluginSet,
    "plugin": PluginEntry,
    "pluginConfig": PluginConfig,
}
_ZERO_IS_DEFAULT = frozenset(
    {
        "clientConnection.qps",
        "clientConnection.burst",
        "clientConnection.contentType",
        "leaderElection.leaseDuration",
        "leaderElection.renewDeadline",
        "leaderElection.retryPeriod",
        "leaderElection.resourceLock",
        "leaderElection.resourceName",
        "leaderElection.resourceNamespace",
    }
)
"""Fields that are no pointers upstream: their zero says nothing."""


class _Loader(yaml.SafeLoader):
    """YAML without timestamps, in which no key may stand twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise CommandError(
                        "strict decoding error: yaml: unmarshal errors: "
                        f"line {key.start_mark.line + 1}: key {quote_go(key.value)} already set in map"
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def parse_yaml(text: str) -> dict[str, Any]:
    """Return the object of a file, which says its kind.

    Raises:
        ProgramError: it is no YAML, no mapping, or of another kind or version.

    Source: apimachinery pkg/runtime/serializer/json Decode, with strict decoding.
    """
    try:
        data = yaml.load(text, _Loader)  # noqa: S506 # a SafeLoader, and no key twice
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}: " if mark is not None else ""
        problem = getattr(error, "problem", None) or "it has characters that YAML forbids"
        raise CommandError(f"yaml: {line}{problem}") from None
    except RecursionError:
        raise CommandError("yaml: nested too deeply") from None
    except (AttributeError, ValueError) as error:  # `!!int x`, `!!timestamp x`
        raise CommandError(f"yaml: a tag does not fit its value: {error}") from None
    if data is not None and not isinstance(data, dict):
        raise CommandError(
            f"couldn't get version/kind; json: cannot unmarshal {_json_name(data)} into an object"
        )
    data = data or {}
    kind, version = data.get("kind"), data.get("apiVersion")
    if not kind:
        raise CommandError(f"Object 'Kind' is missing: use kind {KIND} of {API_VERSION}")
    if kind != KIND or version != API_VERSION:
        raise CommandError(
            f"no kind {quote_go(str(kind))} is registered for version {quote_go(str(version or ''))}: "
            f"use kind {KIND} of {API_VERSION}"
        )
    return data


class _Decoder:
    """Collects what is wrong while it reads."""

    def __init__(self) -> None:
        self.unknown: list[str] = []
        self.broken: set[str] = set()
        self.errors: list[FieldError | str] = []

    def part(self, cls: type[_Part], data: Any, path: str) -> _Part:
        """Read an object; what is not said, or cannot be read, has its default."""
        if data is None:
            return cls()
        if not isinstance(data, dict):
            self._refuse(data, path, "object")
            return cls()
        known = {entry.metadata["name"]: entry for entry in fields(cls)}  # type: ignore[arg-type] # a dataclass
        values: dict[str, Any] = {}
        for name, value in data.items():
            where = f"{path}.{name}" if path else str(name)
            entry = known.get(name)
            if entry is None:
                if path or name not in {"apiVersion", "kind"}:
                    self.unknown.append(where)
                continue
            if value is None:
                continue
            many = entry.default == ()
            got = (
                self._list(entry.metadata["kind"], value, where)
                if many
                else self._value(entry.metadata["kind"], value, where)
            )
            if got is not None and not (where in _ZERO_IS_DEFAULT and not got):
                values[entry.name] = got
        return cls(**values)

    def _list(self, kind: str, data: Any, path: str) -> tuple[Any, ...] | None:
        if not isinstance(data, list):
            self._refuse(data, path, "list")
            return None
        read = (self._value(kind, value, f"{path}[{i}]") for i, value in enumerate(data))
        if kind in _PARTS:
            return tuple(value if value is not None else _PARTS[kind]() for value in read)
        return tuple(value for value in read if value is not None)

    def _value(self, kind: str, data: Any, path: str) -> Any:
        part = _PARTS.get(kind)
        if part is not None:
            return self.part(part, data, path)
        return _SCALARS[kind](self, data, path)

    def string(self, data: Any, path: str) -> str | None:
        """Read a text."""
        if not isinstance(data, str):
            self._refuse(data, path, "string")
            return None
        return data

    def bool(self, data: Any, path: str) -> bool | None:
        """Read yes or no."""
        if not isinstance(data, bool):
            self._refuse(data, path, "bool")
            return None
        return data

    def int32(self, data: Any, path: str) -> int | None:
        """Read a whole number of 32 bits."""
        return self._int(data, path, "int32", INT32)

    def int64(self, data: Any, path: str) -> int | None:
        """Read a whole number of 64 bits."""
        return self._int(data, path, "int64", INT64)

    def float32(self, data: Any, path: str) -> float | None:
        """Read a number, not an infinite one."""
        if isinstance(data, bool) or not isinstance(data, int | float) or not abs(data) < 3.4e38:
            self._refuse(data, path, "float32")
            return None
        return float(data)

    def duration(self, data: Any, path: str) -> float | None:
        """Read a duration as seconds."""
        if not isinstance(data, str):
            self._refuse(data, path, "string")
            return None
        try:
            return parse_duration(data)
        except ValueError as error:
            self._note(path, invalid(path, data, str(error)))
            return None

    def object(self, data: Any, path: str) -> dict[str, Any] | None:
        """Read an object that others know the fields of."""
        if not isinstance(data, dict):
            self._refuse(data, path, "object")
            return None
        return data

    def _int(self, data: Any, path: str, kind: str, most: int) -> int | None:
        if isinstance(data, bool) or not isinstance(data, int):
            self._refuse(data, path, kind)
            return None
        if not -most - 1 <= data <= most:
            text = f"json: cannot unmarshal number {data} into field {path} of type {kind}"
            self._note(path, text)
            return None
        return data

    def _refuse(self, data: Any, path: str, kind: str) -> None:
        self._note(
            path, f"json: cannot unmarshal {_json_name(data)} into field {path} of type {kind}"
        )

    def _note(self, path: str, error: FieldError | str) -> None:
        self.errors.append(error)
        self.broken.add(find_section(path))


_SCALARS: dict[str, Callable[[_Decoder, Any, str], Any]] = {
    "string": _Decoder.string,
    "bool": _Decoder.bool,
    "int32": _Decoder.int32,
    "int64": _Decoder.int64,
    "float32": _Decoder.float32,
    "duration": _Decoder.duration,
    "object": _Decoder.object,
}


@dataclass(frozen=True, slots=True)
class DecodedConfiguration:
    """A configuration as far as it could be read.

    Args:
        configuration: with defaults for what could not.
        errors: unknown fields and wrong types.
        broken: the sections that have one of the wrong types.
    """

    configuration: Configuration
    errors: tuple[FieldError | str, ...] = ()
    broken: frozenset[str] = frozenset()


def decode_configuration(data: dict[str, Any]) -> DecodedConfiguration:
    """Return the configuration of an object of our kind and version, and what is wrong with it."""
    reader = _Decoder()
    configuration = reader.part(Configuration, data, "")
    unknown = ", ".join(f'unknown field "{path}"' for path in reader.unknown)
    errors = (*([f"strict decoding error: {unknown}"] if unknown else []), *reader.errors)
    return DecodedConfiguration(configuration, errors, frozenset(reader.broken))


def find_section(path: str) -> str:
    """Return the part of a configuration whose fields are held against each other."""
    first = path.partition(".")[0].partition("[")[0]
    return "backoff" if first.endswith("BackoffSeconds") else first


def _json_name(data: Any) -> str:
    if isinstance(data, bool):
        return "bool"
    if isinstance(data, int | float):
        return f"number {data}" if isinstance(data, float) else "number"
    if isinstance(data, list):
        return "array"
    return "object" if isinstance(data, dict) else "string"
