"""The values that expressions work with.

Most are Python's own: `bool`, `int`, `float`, `str`, `bytes`, `list`, `dict` and None; `OpaqueValue` are
Kubernetes'. An error is a value too: it is handed on until something can do without it
(`true || 1 / 0 == 1`).

Source: github.com/google/cel-go common/types; k8s.io/apiserver pkg/cel/common/
valuesunstructured.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pytest_kwait.simulator.cel.moments import Duration, Timestamp

__all__ = [
    "NO_OVERLOAD",
    "OPAQUE_TYPE_NAMES",
    "OPTIONAL_NONE",
    "ErrorValue",
    "MapList",
    "OpaqueValue",
    "OptionalValue",
    "SetList",
    "TypeName",
    "Uint",
    "get_kind",
    "get_size",
    "get_type_name",
    "is_equal",
    "is_number",
]

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


@dataclass(frozen=True, slots=True)
class ErrorValue:
    """Why there is no value."""

    text: str


NO_OVERLOAD = ErrorValue("no such overload")


class OpaqueValue(dict[str, Any]):
    """A value of one of Kubernetes' own types: which one, and what it consists of."""

    __slots__ = ("kind",)

    def __init__(self, kind: str, **parts: Any) -> None:
        super().__init__(parts)
        self.kind = kind


class Uint(int):
    """A number without sign."""

    __slots__ = ()


class TypeName(str):
    """A type, by its name."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class OptionalValue:
    """A value that may not be there."""

    value: Any = None
    has_value: bool = True


OPTIONAL_NONE = OptionalValue(there=False)


class SetList(list[Any]):
    """A list whose schema says that it is a set: its order does not count.

    What was ever added to it counts as its own when it is compared, as there, where a sum leaves
    its mark in the set that the list is looked up by.
    """

    __slots__ = ("_known",)

    def __init__(self, items: list[Any]) -> None:
        super().__init__(items)
        self._known = items

    def same(self, other: list[Any]) -> bool:
        """Whether the other has as many items, and each is here as well."""
        return len(self) == len(other) and all(_contains(self._known, item) for item in other)

    def with_items(self, other: list[Any]) -> SetList:
        """The union: what is new comes last."""
        new: list[Any] = []
        for item in other:
            if not _contains(self._known, item):
                self._known = [*self._known, item]
                new.append(item)
        return SetList([*self, *new])


class MapList(list[Any]):
    """A list whose schema says that it is a map: keys tell its items apart, whatever their order.

    Args:
        items: the items.
        keys: the names of their keys.
    """

    __slots__ = ("keys",)

    def __init__(self, items: list[Any], keys: tuple[str, ...]) -> None:
        super().__init__(items)
        self.keys = keys

    def _key(self, item: Any) -> tuple[Any, ...]:
        return tuple(item.get(key) for key in self.keys) if isinstance(item, dict) else ()

    def same(self, other: list[Any]) -> bool:
        """Whether the other has as many items, and each is here under its keys."""
        if len(self) != len(other):
            return False
        mine = {self._key(item): item for item in self}
        return all(
            self._key(item) in mine and is_equal(mine[self._key(item)], item) for item in other
        )

    def with_items(self, other: list[Any]) -> MapList:
        """Both merged: what is under the same keys is replaced in its place, the rest is last."""
        found = MapList(self, self.keys)
        places = {self._key(item): index for index, item in enumerate(self)}
        for item in other:
            place = places.get(self._key(item))
            if place is None:
                found.append(item)
            else:
                found[place] = item
        return found


def _contains(items: list[Any], wanted: Any) -> bool:
    return any(is_equal(item, wanted) for item in items)


def is_number(value: Any) -> bool:
    """Whether it is a number of any kind."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_equal(one: Any, two: Any) -> bool:
    """Whether two values are equal; numbers of all kinds are compared by what they amount to."""
    if isinstance(one, bool) or isinstance(two, bool):
        return one is two
    if isinstance(one, SetList | MapList) and isinstance(two, list):
        return one.same(two)
    if isinstance(one, list):
        if not isinstance(two, list) or len(one) != len(two):
            return False
        return all(is_equal(left, right) for left, right in zip(one, two, strict=True))
    if isinstance(one, dict):
        if get_kind(one) != get_kind(two) or len(one) != len(two):
            return False
        return all(key in two and is_equal(value, two[key]) for key, value in one.items())
    if isinstance(one, OptionalValue) and isinstance(two, OptionalValue):
        return one.has_value == two.has_value and (
            not one.has_value or is_equal(one.value, two.value)
        )
    if isinstance(one, TypeName) != isinstance(two, TypeName):
        return False
    return bool(one == two)


def get_size(value: Any) -> int:
    """How big a value counts as: the characters of a text, the items of a container, or one."""
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
    """The kind that a value has in the types of functions, such as `int` or `Quantity`."""
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
_TYPE_NAMES = {
    "duration": "google.protobuf.Duration",
    "null": "null_type",
    "optional": "optional_type",
    "timestamp": "google.protobuf.Timestamp",
    **OPAQUE_TYPE_NAMES,
}


def get_type_name(value: Any) -> str:
    """The name of a value's type, as `type(…)` gives it."""
    kind = get_kind(value)
    return _TYPE_NAMES.get(kind, kind)
