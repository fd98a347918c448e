"""Manifests: parse files, YAML text, dicts and lists into objects with their source position."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_kwait.errors import KwaitError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yaml.nodes import MappingNode

__all__ = ["Document", "InvalidManifest", "Source", "find_file", "read_manifests"]

Source: TypeAlias = "str | Path | Mapping[str, Any] | Sequence[Any]"
"""A path, YAML or JSON text, an object, or a sequence of these."""

_SUFFIXES = (".yaml", ".yml", ".json")


class InvalidManifest(KwaitError, ValueError):
    """An invalid manifest; names the file, document, line and problem.

    Args:
        place: file, document and line as text.
        problem: what is wrong and what would be right.
    """

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(place, problem)
        self.place = place
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}"


@dataclass(frozen=True, slots=True)
class Document:
    """One object of a manifest.

    Args:
        object: the object, with at least `apiVersion` and `kind`.
        place: its position, for messages: `jobs.yaml, document 2, line 14`.
    """

    object: dict[str, Any]
    place: str

    @property
    def title(self) -> str:
        """Kind and name as kubectl writes them, `job/pi`."""
        metadata = self.object.get("metadata") or {}
        name = metadata.get("name") or metadata.get("generateName", "")
        return f"{self.object['kind'].lower()}/{name}"


def find_file(path: str | Path, folders: Iterable[Path]) -> Path:
    """Return the file or folder at `path`. A relative path is searched in `folders` in order.

    Raises:
        InvalidManifest: it is in none of them.
    """
    tried = [folder / path for folder in dict.fromkeys(folders)]
    for candidate in tried:
        if candidate.exists():
            return candidate
    places = " or ".join(str(candidate) for candidate in dict.fromkeys(tried))
    raise InvalidManifest(str(path), f"there is no file {places}")


def read_manifests(sources: Iterable[Source], folders: Iterable[Path]) -> list[Document]:
    """Return the objects of `sources` in order; flatten lists and skip empty documents.

    A text is YAML (or JSON) if it has a line break, a `: ` or a leading `{`, else the path of a
    file, or of a folder of which every `.yaml`, `.yml` and `.json` file is read in order of names.

    Args:
        sources: paths, texts, objects, or sequences of these.
        folders: where relative paths are looked for, first match wins.

    Raises:
        InvalidManifest: a file is missing, a text does not parse, or an object is none.
    """
    search = list(folders)
    documents: list[Document] = []
    for number, source in enumerate(sources, 1):
        documents.extend(_read(source, search, f"manifest {number}"))
    return documents


def _read(source: Source, folders: list[Path], place: str) -> Iterator[Document]:
    if isinstance(source, Mapping):
        yield from _objects(_plain(source, place), place)
    elif isinstance(source, Path) or (isinstance(source, str) and not _is_text(source)):
        path = find_file(source, folders)
        if path.is_dir():
            for child in sorted(path.iterdir()):
                if child.suffix in _SUFFIXES:
                    yield from _read_text(_content(child), child.name)
        else:
            yield from _read_text(_content(path), path.name)
    elif isinstance(source, str):
        yield from _read_text(source, place)
    elif isinstance(source, (list, tuple)):
        for number, item in enumerate(source, 1):
            yield from _read(item, folders, f"{place}, item {number}")
    else:
        raise InvalidManifest(
            place,
            f"a {type(source).__name__} is no manifest; give a path, YAML text, a dict or a list "
            "of these",
        )


def _is_text(source: str) -> bool:
    return "\n" in source or ": " in source or source.lstrip().startswith("{")


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidManifest(path.name, f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidManifest(path.name, f"is not UTF-8 text: byte {error.start}") from error


def _read_text(text: str, place: str) -> Iterator[Document]:
    if text.lstrip().startswith("{"):
        # YAML is a superset of JSON except that it rejects tabs.
        try:
            yield from _objects(json.loads(text), place)
        except json.JSONDecodeError:
            pass
        else:
            return
    yield from _read_yaml(text, place)


def _read_yaml(text: str, place: str) -> Iterator[Document]:
    import yaml

    try:
        loader = _loader()(text)
    except yaml.YAMLError as error:
        raise InvalidManifest(place, f"is no YAML: {str(error).partition(chr(10))[0]}") from error
    number = 0
    try:
        while loader.check_node():
            number += 1
            node = loader.get_node()
            where = f"{place}, document {number}, line {node.start_mark.line + 1}"
            value = loader.construct_document(node)
            if value is not None:
                yield from _objects(_plain(value, where), where)
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        problem = ", ".join(filter(None, (error.context, error.problem)))
        where = f"{place}, document {max(number, 1)}{line}"
        raise InvalidManifest(where, f"is no YAML: {problem}") from error
    finally:
        loader.dispose()


def _loader() -> type[Any]:
    import yaml

    class ManifestLoader(yaml.SafeLoader):
        """YAML loader like the API server's: dates stay text, duplicate keys are errors."""

        yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own way to replace them in a subclass
            first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
            for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

        def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Any, Any]:
            seen: set[str] = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode):
                    if key.value in seen:
                        raise yaml.constructor.ConstructorError(
                            None, None, f"the key {key.value!r} comes twice", key.start_mark
                        )
                    seen.add(key.value)
            return super().construct_mapping(node, deep)

    return ManifestLoader


def _plain(value: Any, place: str) -> Any:
    """Return a deep copy of `value` as JSON values."""
    try:
        return json.loads(json.dumps(value, default=_jsonable, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InvalidManifest(place, f"holds what JSON cannot: {error}") from error


def _jsonable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} ({value!r})")


def _objects(value: Any, place: str) -> Iterator[Document]:
    if not isinstance(value, dict):
        raise InvalidManifest(place, f"is a {_json_name(value)}, an object is needed")
    for field in ("apiVersion", "kind"):
        if not isinstance(value.get(field), str) or not value[field]:
            raise InvalidManifest(place, f"has no {field}")
    if value["kind"] == "List" and "items" in value:
        for number, item in enumerate(value["items"] or [], 1):
            yield from _objects(item, f"{place}, item {number}")
        return
    metadata = value.get("metadata")
    if not isinstance(metadata, dict) or not (
        isinstance(metadata.get("name"), str) or isinstance(metadata.get("generateName"), str)
    ):
        raise InvalidManifest(place, f"the {value['kind']} has no metadata.name that is a text")
    yield Document(value, place)


def _json_name(value: Any) -> str:
    names = {list: "list", str: "text", bool: "truth value", int: "number", float: "number"}
    return names.get(type(value), "null")
