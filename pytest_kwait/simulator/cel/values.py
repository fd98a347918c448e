"""CEL values: timestamps, durations, optionals, errors, lists with set or map semantics.

Most values are Python's own: `bool`, `int`, `float`, `str`, `bytes`, `list`, `dict` and None;
`OpaqueValue` holds values of Kubernetes' types. An error is a value too and propagates until an
operator can do without it (`true || 1 / 0 == 1`).

Source: github.com/google/cel-go common/types (timestamp.go and duration.go among them);
k8s.io/apiserver pkg/cel/common/valuesunstructured.go.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pytest_kwait.apimachinery.go_values import parse_nanoseconds

if TYPE_CHECKING:
    from collections.abc import Callable

_NANOS = 1_000_000_000
_TIMESTAMP = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
_OFFSET = re.compile(r"([+-]?)(\d\d):(\d\d)", re.ASCII)
_MIN_SECONDS, _MAX_SECONDS = -62_135_596_800, 253_402_300_799


RESERVED_WORDS = frozenset(
    re.findall(
        r"\w+",
        "true false null in as break const continue else for function if import let loop package "
        "namespace return var void while",
    )
)
"""Words that no identifier may be."""
OPAQUE_TYPE_NAMES = {
    "Authorizer": "kubernetes.authorization.Authorizer",
    "CIDR": "net.CIDR",
    "Decision": "kubernetes.authorization.Decision",
    "Format": "kubernetes.NamedFormat",
    "GroupCheck": "kubernetes.authorization.GroupCheck",
    "IP": "net.IP",
    "PathCheck": "kubernetes.authorization.PathCheck",
    "Quantity": "kubernetes.Quantity",
    "ResourceCheck": "kubernetes.authorization.ResourceCheck",
    "Semver": "kubernetes.Semver",
    "URL": "kubernetes.URL",
}

_TYPE_NAMES = {
    "duration": "google.protobuf.Duration",
    "null": "null_type",
    "optional": "optional_type",
    "timestamp": "google.protobuf.Timestamp",
    **OPAQUE_TYPE_NAMES,
}


@dataclass(frozen=True, order=True, slots=True)
class Duration:
    """A duration in nanoseconds."""

    nanos: int

    def __add__(self, other: Duration) -> Duration:
        return Duration(self.nanos + other.nanos)

    def __str__(self) -> str:
        sign = "-" if self.nanos < 0 else ""
        seconds, rest = divmod(abs(self.nanos), _NANOS)
        part = f".{rest:09d}".rstrip("0") if rest else ""
        return f"{sign}{seconds}{part}s"


@dataclass(frozen=True, order=True, slots=True)
class Timestamp:
    """A point in time, with the UTC offset of the text that it was parsed from."""

    nanos: int
    offset: int = field(default=0, compare=False)

    def __str__(self) -> str:
        rest = self.nanos % _NANOS
        part = f".{rest:09d}".rstrip("0") if rest else ""
        zone = "Z"
        if self.offset:
            hours, minutes = divmod(abs(self.offset) // 60, 60)
            zone = f"{'-' if self.offset < 0 else '+'}{hours:02d}:{minutes:02d}"
        here = self._at(timezone(timedelta(seconds=self.offset)))
        return f"{here:%Y-%m-%dT%H:%M:%S}".rjust(19, "0") + part + zone

    @property
    def is_within_bounds(self) -> bool:
        """Return whether the year is between 1 and 9999."""
        return _MIN_SECONDS <= self.nanos // _NANOS <= _MAX_SECONDS

    def _at(self, zone: tzinfo) -> datetime:
        start = datetime(1970, 1, 1, tzinfo=UTC)
        return (start + timedelta(seconds=self.nanos // _NANOS)).astimezone(zone)

    def part(self, name: str, zone: str = "UTC") -> int:
        """Return the value of a function such as `getHours`.

        Args:
            name: the function's name.
            zone: a time zone's name, or a UTC offset (`-02:30`).

        Raises:
            ValueError: the zone is unknown.
        """
        here = self._at(_parse_zone(zone))
        if name == "getMilliseconds":
            return self.nanos % _NANOS // 1_000_000
        if name == "getDayOfWeek":
            return here.isoweekday() % 7
        if name == "getDayOfYear":
            return here.timetuple().tm_yday - 1
        return {
            "getFullYear": here.year,
            "getMonth": here.month - 1,
            "getDate": here.day,
            "getDayOfMonth": here.day - 1,
            "getHours": here.hour,
            "getMinutes": here.minute,
            "getSeconds": here.second,
        }[name]


def _parse_zone(name: str) -> tzinfo:
    if match := _OFFSET.fullmatch(name):
        length = timedelta(hours=int(match[2]), minutes=int(match[3]))
        return timezone(-length if match[1] == "-" else length)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"unknown time zone {name}") from None


def is_valid_for(parse: Callable[..., object]) -> Callable[..., bool]:
    """Return a function that returns whether its arguments can be parsed."""

    def is_valid(*args: Any) -> bool:
        try:
            parse(*args)
        except ValueError:
            return False
        return True

    return is_valid


def parse_duration(text: str) -> Duration | None:
    """Return the duration that a text such as `1h30m` spells; None for any other text."""
    try:
        return Duration(parse_nanoseconds(text))
    except ValueError:
        return None


def parse_timestamp(text: str) -> Timestamp | None:
    """Return the point in time of an RFC 3339 text; None for any other text."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(match[at]) for at in range(1, 7))
    offset = 0
    if match[8] not in "Zz":
        sign, hours, minutes = match[8][0], int(match[8][1:3]), int(match[8][4:])
        offset = (hours * 60 + minutes) * (-60 if sign == "-" else 60)
    try:
        local = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    seconds = int((local - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()) - offset
    nanos = int((match[7] or "").ljust(9, "0")[:9])
    return Timestamp(seconds * _NANOS + nanos, offset)


@dataclass(frozen=True, slots=True)
class ErrorValue:
    """An error that takes the place of a value."""

    text: str


NO_OVERLOAD = ErrorValue("no such overload")


class OpaqueValue(dict[str, Any]):
    """A value of one of Kubernetes' own types: the type's name, and its content."""

    __slots__ = ("kind",)

    def __init__(self, kind: str, **parts: Any) -> None:
        super().__init__(parts)
        self.kind = kind


class ObjectValue(dict[str, Any]):
    """An object with a schema, by escaped names; reserved words are found without escape, too."""

    def __missing__(self, key: str) -> Any:
        """Return the field that is a reserved word."""
        if key in RESERVED_WORDS:
            return self[f"__{key}__"]
        raise KeyError(key)


class Uint(int):
    """An unsigned integer."""

    __slots__ = ()


class TypeName(str):
    """A type, by its name."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class OptionalValue:
    """An optional value."""

    value: Any = None
    has_value: bool = True


OPTIONAL_NONE = OptionalValue(has_value=False)


class SetList(list[Any]):
    """A list whose schema is a set: its order is ignored.

    Items that were ever added count in comparisons, as in kube-apiserver, where a union modifies
    the lookup table of its left operand.
    """

    __slots__ = ("_known",)

    def __init__(self, items: list[Any]) -> None:
        super().__init__(items)
        self._known = items

    def same(self, other: list[Any]) -> bool:
        """Return whether the other list has the same items."""
        return len(self) == len(other) and all(_contains(self._known, item) for item in other)

    def with_items(self, other: list[Any]) -> SetList:
        """Return the union; new items are appended."""
        new: list[Any] = []
        for item in other:
            if not _contains(self._known, item):
                self._known = [*self._known, item]
                new.append(item)
        return SetList([*self, *new])


class MapList(list[Any]):
    """A list whose schema is a map: items are identified by keys, in any order.

    Args:
        keys: the names of their keys.
    """

    __slots__ = ("keys",)

    def __init__(self, items: list[Any], keys: tuple[str, ...]) -> None:
        super().__init__(items)
        self.keys = keys

    def _key(self, item: Any) -> tuple[Any, ...]:
        return tuple(item.get(key) for key in self.keys) if isinstance(item, dict) else ()

    def same(self, other: list[Any]) -> bool:
        """Return whether the other list has equal items under the same keys."""
        if len(self) != len(other):
            return False
        items_by_key = {self._key(item): item for item in self}
        return all(
            self._key(item) in items_by_key and is_equal(items_by_key[self._key(item)], item)
            for item in other
        )

    def with_items(self, other: list[Any]) -> MapList:
        """Return both merged: equal keys are replaced in place, new items appended."""
        merged = MapList(self, self.keys)
        places = {self._key(item): index for index, item in enumerate(self)}
        for item in other:
            place = places.get(self._key(item))
            if place is None:
                merged.append(item)
            else:
                merged[place] = item
        return merged


def _contains(items: list[Any], value: Any) -> bool:
    return any(is_equal(item, value) for item in items)


def is_number(value: Any) -> bool:
    """Return whether the value is a number of any kind."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_equal(first: Any, second: Any) -> bool:
    """Return whether two values are equal; numbers are compared across kinds."""
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    if isinstance(first, SetList | MapList) and isinstance(second, list):
        return first.same(second)
    if isinstance(first, list):
        if not isinstance(second, list) or len(first) != len(second):
            return False
        return all(is_equal(left, right) for left, right in zip(first, second, strict=True))
    if isinstance(first, dict):
        if get_kind(first) != get_kind(second) or len(first) != len(second):
            return False
        return all(key in second and is_equal(value, second[key]) for key, value in first.items())
    if isinstance(first, OptionalValue) and isinstance(second, OptionalValue):
        return first.has_value == second.has_value and (
            not first.has_value or is_equal(first.value, second.value)
        )
    if isinstance(first, TypeName) != isinstance(second, TypeName):
        return False
    return bool(first == second)


def get_size(value: Any) -> int:
    """Return the size of a value: characters, items, or one."""
    if isinstance(value, OptionalValue):
        return get_size(value.value) if value.has_value else 1
    if isinstance(value, OpaqueValue):
        return _get_opaque_size(value)
    if isinstance(value, str | bytes | list | dict) and not isinstance(value, TypeName):
        return len(value)
    return 1


def _get_opaque_size(value: OpaqueValue) -> int:
    text: str = value.get("text", "")
    if value.kind == "IP":
        return 16 if ":" in text else 4
    if value.kind == "CIDR":
        return -(-int(text.rpartition("/")[2]) // 8)
    return len(value["name"]) if value.kind == "Format" else 1


def get_kind(value: Any) -> str:
    """Return the kind of a value in declarations, such as `int` or `Quantity`."""
    if isinstance(value, dict):
        return value.kind if isinstance(value, OpaqueValue) else "map"
    return _KINDS_OF_PYTHON_TYPES.get(type(value), "list" if isinstance(value, list) else "dyn")


_KINDS_OF_PYTHON_TYPES: dict[type, str] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    Duration: "duration",
    Timestamp: "timestamp",
    OptionalValue: "optional",
    TypeName: "type",
    type(None): "null",
}


def get_type_name(value: Any) -> str:
    """Return the name of a value's type, as `type(…)` returns it."""
    kind = get_kind(value)
    return _TYPE_NAMES.get(kind, kind)
