"""The Go types behind the built-in kinds: what is left out when empty, what Go calls a type.

They come from `data/gotypes.json.gz`, which `tools/simulator_data/go_types.py` makes by reflection.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_kwait.simulator.scheme import read_data

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["GoField", "go_base", "go_fields", "go_item", "go_kinds", "go_struct"]

_CONTAINER = re.compile(r"^(\[\]|map\[[\w.]*\])")


class GoField(NamedTuple):
    """One field of a struct."""

    json: str
    """Its name in JSON; empty where the fields of a struct stand in its place."""
    go: str
    """Go's name of its type, without the star of a pointer."""
    of: str
    """The full name of the type that it, its items or its values are made of."""
    number: int
    """Its number in protobuf, 0 for none."""
    pointer: bool
    omitted: bool
    """Whether it is left out when it is empty."""
    omitted_zero: bool
    """Whether it is left out when it is zero, as a struct is by no other word."""
    inline: bool
    mode: str
    """`list`, `map` or nothing."""
    within: tuple[str, ...] = ()
    """The inline structs that it stands in."""

    @property
    def cleared(self) -> bool:
        """Whether an empty value that was given is left out."""
        return self.omitted and not self.pointer


@cache
def _go_data() -> dict[str, Any]:
    data: dict[str, Any] = read_data("gotypes.json.gz")
    return data


@cache
def go_struct(name: str) -> tuple[GoField, ...] | None:
    """The fields of a struct as Go declares them, None for a type that is none or unknown."""
    found = _go_data()["types"].get(name)
    if found is None:
        return None
    return tuple(
        GoField(
            json,
            go,
            of,
            number,
            pointer="p" in flags,
            omitted="o" in flags,
            omitted_zero="z" in flags,
            inline="i" in flags,
            mode="list" if "l" in flags else "map" if "m" in flags else "",
        )
        for json, go, of, number, flags in found
    )


@cache
def go_fields(name: str) -> dict[str, GoField]:
    """The fields of a struct as JSON shows them: those of inline structs are its own."""
    return {field.json: field for field in _flatten_fields(name, ())}


def _flatten_fields(name: str, within: tuple[str, ...]) -> Iterator[GoField]:
    for field in go_struct(name) or ():
        if field.inline:
            yield from _flatten_fields(field.of, (*within, field.go.rpartition(".")[2]))
        else:
            yield field._replace(within=within)


def go_base(name: str) -> str:
    """What a named type is that is no struct: `string`, `slice string`; else `name`."""
    base: str = _go_data()["bases"].get(name, name)
    return base


def go_kinds() -> dict[str, str]:
    """The full names of kinds by `apps/v1 Deployment`."""
    kinds: dict[str, str] = _go_data()["kinds"]
    return kinds


def go_item(go: str) -> str:
    """Go's name of the items of a list or of the values of a map; empty if the name hides it."""
    match = _CONTAINER.match(go)
    return go[match.end() :] if match else ""
