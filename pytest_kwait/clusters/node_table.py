"""Nodes of an embedded cluster as users write them: a number, a table, or a file.

A table has an entry for each sort of nodes: `count` nodes with a name, labels, taints and amounts.
It is a line each of a text, a list of mappings, or the list `nodes` of a YAML file. A file may be a
kind configuration as well.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.simulator.protocol.nodes import (
    MAX_NODES,
    EmbeddedNode,
    Nodes,
    Taint,
    default_node_name,
    make_node,
    make_taint,
    parse_pairs,
    parse_taint,
    parse_taints,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_KEYS = ("name", "count", "labels", "taints", "capacity", "allocatable")
_ENDINGS = (".yaml", ".yml", ".json")
_NUMBER = re.compile(r"-?\d{1,9}", re.ASCII)
_MOST_SHOWN = 6

_VALID = (
    f"use a number from 1 to {MAX_NODES}, the path of a .yaml file, or an entry a line, for "
    "example 'name=gpu count=2 labels=pool=gpu capacity=cpu=4,memory=16Gi'"
)
_COUNT = f"use a whole number from 1 to {MAX_NODES}"
_ENTRY = f"use the keys {', '.join(_KEYS)}"
_FILE = "use a kind configuration, or a list nodes with the keys of a node"


@dataclass(frozen=True)
class NodeTable:
    """Nodes that are described one by one.

    Args:
        nodes: the nodes.
        file: the file that describes them, as it was given; empty for none.
        unused: the fields of that file which an embedded cluster has no use for.
    """

    nodes: tuple[EmbeddedNode, ...]
    file: str = ""
    unused: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the names of the first nodes, and how many there are more."""
        names = [node.name for node in self.nodes[:_MOST_SHOWN]]
        more = len(self.nodes) - len(names)
        return ", ".join(names) + (f" and {more} more" if more else "")

    @property
    def note(self) -> str:
        """The sentence about what is not used; empty if there is nothing."""
        if not self.unused:
            return ""
        return f"{Path(self.file).name}: the embedded cluster does not use {', '.join(self.unused)}"


RequestedNodes = int | NodeTable
"""The number of nodes that are all alike, or a table of them."""


def nodes_of(requested: RequestedNodes) -> Nodes:
    """Return the nodes as an option of an embedded cluster."""
    return requested.nodes if isinstance(requested, NodeTable) else requested


def is_node_file(value: object) -> bool:
    """Return whether a value is the path of a file, and not an entry: by its ending or a slash."""
    text = value.strip() if isinstance(value, str) else ""
    is_entry = "\n" in text or text.partition("=")[0] in _KEYS
    return not is_entry and (text.endswith(_ENDINGS) or "/" in text)


def read_requested_nodes(value: Any, what: str, source: str | None) -> RequestedNodes:
    """Return the nodes that a setting or an option asks for.

    Args:
        value: a number; the path of a file; a text with an entry a line; a mapping for one entry,
            or a list of mappings or lines.
        what: the name of the setting.
        source: where the value comes from, for messages.

    Raises:
        InvalidArgument: a value is invalid, or the file cannot be read.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    entries: list[tuple[str, Any]] = []
    if isinstance(value, str):
        if _NUMBER.fullmatch(value.strip()):
            return _read_count(value.strip(), what, source, f"a number from 1 to {MAX_NODES}")
        if is_node_file(value):
            return _read_file(value.strip(), what, source)
        lines = list(enumerate(value.strip().splitlines(), start=1))
        entries = [(f"{what} line {number}", line) for number, line in lines if line.strip()]
        if any("=" not in line for _, line in lines if line.strip()):
            raise InvalidArgument(what, value, _VALID, source)
    elif isinstance(value, Mapping):
        entries = [(what, value)]
    elif isinstance(value, (list, tuple)):
        entries = _list_entries(value, what)
    if not entries:
        raise InvalidArgument(what, value, _VALID, source)
    return NodeTable(_read_entries(entries, what, source))


def _list_entries(values: Iterable[Any], what: str) -> list[tuple[str, Any]]:
    return [(f"{what}[{index}]", value) for index, value in enumerate(values)]


def _read_count(text: str, what: str, source: str | None, valid: str = _COUNT) -> int:
    if not _NUMBER.fullmatch(text) or not 1 <= int(text) <= MAX_NODES:
        number = int(text) if _NUMBER.fullmatch(text) else text
        raise InvalidArgument(what, number, valid, source)
    return int(text)


def _read_file(name: str, what: str, source: str | None) -> NodeTable:
    # PyYAML is not needed without a file.
    from pytest_kwait.clusters.kind_config import API_VERSION, load_yaml, read_kind_config

    try:
        text = Path(name).expanduser().read_text(encoding="utf-8")
        documents = load_yaml(text)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InvalidArgument(what, name, f"it cannot be read: {reason}", source) from None
    except (ValueError, RuntimeError) as error:  # no UTF-8, no YAML, no such user
        raise InvalidArgument(what, name, str(error), source) from None
    document = documents[0] if len(documents) == 1 else None
    place = f"{name}, {source}" if source else name
    if not isinstance(document, Mapping):
        raise InvalidArgument(what, name, _FILE, source)
    if "kind" in document or "apiVersion" in document:
        version = document.get("apiVersion")
        if version != API_VERSION:
            valid = f"use {API_VERSION}, or leave apiVersion and kind out for a list nodes"
            raise InvalidArgument("apiVersion", version, valid, place)
        found = read_kind_config(document, place)
        return NodeTable(found.nodes, name, found.unused)
    entries = document.get("nodes")
    unknown = [key for key in document if key != "nodes"]
    if unknown or not isinstance(entries, list) or not entries:
        raise InvalidArgument(what, unknown[0] if unknown else entries, _FILE, place)
    return NodeTable(_read_entries(_list_entries(entries, "nodes"), "nodes", place), name)


def _read_entries(
    entries: Iterable[tuple[str, Any]], what: str, source: str | None
) -> tuple[EmbeddedNode, ...]:
    nodes: list[EmbeddedNode] = []
    places: dict[str, str] = {}
    for place, entry in entries:
        for node in _read_entry(place, entry, len(nodes), source):
            if node.name in places:
                valid = f"the name is that of {places[node.name]} too"
                raise InvalidArgument(f"{place}: name", node.name, valid, source)
            places[node.name] = place
            nodes.append(node)
        if len(nodes) > MAX_NODES:
            raise InvalidArgument(what, len(nodes), f"use at most {MAX_NODES} nodes", source)
    return tuple(nodes)


def _read_entry(place: str, entry: Any, before: int, source: str | None) -> Iterator[EmbeddedNode]:
    """Yield the nodes of an entry.

    Args:
        place: the place of the entry, for messages.
        entry: a mapping, or a line.
        before: the number of nodes in front of it, for nodes without a name.
        source: where it comes from.
    """
    table = _split_line(place, entry, source) if isinstance(entry, str) else entry
    if not isinstance(table, Mapping):
        raise InvalidArgument(place, entry, _ENTRY, source)
    for key in table:
        if key not in _KEYS:
            near = difflib.get_close_matches(str(key), _KEYS, 1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise InvalidArgument(place, key, f"{hint}{_ENTRY}", source)
    count = 1
    if "count" in table:
        given = table["count"]
        text = given if isinstance(given, str) else repr(given)
        count = _read_count(text, f"{place}: count", source)
    name = table.get("name")
    if name is None:
        names = [default_node_name(before + number) for number in range(1, count + 1)]
    elif not isinstance(name, str):
        raise InvalidArgument(f"{place}: name", name, "use a text", source)
    elif "count" in table:
        names = [f"{name}-{number}" for number in range(1, count + 1)]
    else:
        names = [name]
    node = make_node(
        names[-1],
        _read_texts(table.get("labels", {}), f"{place}: labels", source),
        _read_taints(table.get("taints", []), f"{place}: taints", source),
        _read_texts(table.get("capacity", {}), f"{place}: capacity", source),
        _read_texts(table.get("allocatable", {}), f"{place}: allocatable", source),
        place=place,
        source=source,
    )
    for own in names:
        yield replace(node, name=own)


def _split_line(place: str, line: str, source: str | None) -> dict[str, str]:
    """Return the words `KEY=VALUE` of a line."""
    table: dict[str, str] = {}
    for word in line.split():
        key, equals, value = word.partition("=")
        if not equals:
            raise InvalidArgument(place, word, f"use KEY=VALUE; {_ENTRY}", source)
        if key in table:
            raise InvalidArgument(place, word, f"{key} comes twice", source)
        table[key] = value
    return table


def _read_texts(value: Any, what: str, source: str | None) -> dict[str, str]:
    """Return a mapping of texts, of a mapping or of `KEY=VALUE,...`; numbers become texts."""
    if isinstance(value, str):
        return parse_pairs(value, what, source)
    if not isinstance(value, Mapping):
        raise InvalidArgument(what, value, "use a mapping, or KEY=VALUE with commas", source)
    texts = {}
    for key, item in value.items():
        is_number = isinstance(item, (int, float)) and not isinstance(item, bool)
        if not isinstance(key, str) or not (isinstance(item, str) or is_number):
            raise InvalidArgument(f"{what} {key}", item, "use a text or a number", source)
        texts[key] = str(item)
    return texts


def _read_taints(value: Any, what: str, source: str | None) -> list[Taint]:
    """Return taints, of a list or of a text with commas between them."""
    if isinstance(value, str):
        return parse_taints(value, what, source)
    if not isinstance(value, (list, tuple)):
        raise InvalidArgument(what, value, "use a list of KEY=VALUE:EFFECT", source)
    taints = []
    for index, entry in enumerate(value):
        place = f"{what}[{index}]"
        if isinstance(entry, str):
            taints.append(parse_taint(entry, place, source))
        elif isinstance(entry, Mapping) and set(entry) <= {"key", "value", "effect"}:
            key, text, effect = (str(entry.get(name, "")) for name in ("key", "value", "effect"))
            taints.append(make_taint(key, text, effect, place, source))
        else:
            valid = "use KEY=VALUE:EFFECT, or a mapping with key, value and effect"
            raise InvalidArgument(place, entry, valid, source)
    return taints
