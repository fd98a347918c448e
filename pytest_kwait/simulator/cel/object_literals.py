"""Object literals in CEL expressions: `Object{…}`, `Object.spec{…}` and `JSONPatch{…}`.

The runtime can only build messages of types that are declared with all their fields. Here any field
is valid, so types are declared from the expression before it is checked, and it builds maps when it
runs; one key of such a map holds the type's name.

Source: k8s.io/apiserver pkg/cel/mutation/{jsonpatch,typeresolver}.go, dynamic/objects.go.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from google.protobuf import any_pb2, descriptor_pb2

from pytest_kwait.simulator.cel.expressions import EvaluationError
from pytest_kwait.simulator.cel.library.jsonpatch import ESCAPE_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.protobuf.descriptor_pool import DescriptorPool

__all__ = [
    "TYPE_KEY",
    "ObjectLiteral",
    "declare_types",
    "to_checked_form",
    "to_json",
    "to_runtime_form",
]

TYPE_KEY = "@object"
"""The entry of a map that names its object type."""

JSON_PATCH_TYPE = "JSONPatch"
_JSON_PATCH_FIELDS = ("op", "path", "from")
_STRING_LITERAL = (
    r"\"\"\".*?\"\"\"|'''.*?'''|[rRbB]*\"(?:\\.|[^\"\\\n])*\"|[rRbB]*'(?:\\.|[^'\\\n])*'"
)
_TOKEN = re.compile(
    rf"(?P<text>{_STRING_LITERAL})|(?P<note>//[^\n]*)|(?P<name>[A-Za-z_]\w*(?:\s*\.\s*[A-Za-z_]\w*)*)|"
    r"(?P<quoted>`[^`\n]*`)|(?P<sign>[{}()\[\],:?])|(?P<other>\s+|.)",
    re.S,
)
_ESCAPE_KEY_CALL = "jsonpatch.escapeKey"
_Field = descriptor_pb2.FieldDescriptorProto


@dataclass(slots=True)
class ObjectLiteral:
    """One object literal of an expression.

    Args:
        name: the type's name.
        start: the offset of the name.
        brace: the offset of the opening brace.
        fields: start, end and name of each field.
    """

    name: str
    start: int
    brace: int
    fields: list[tuple[int, int, str]] = field(default_factory=list)


def _find_object_literals(text: str) -> Iterator[ObjectLiteral]:
    """Yield the object literals of an expression, inner ones first."""
    opened: list[ObjectLiteral | None] = []
    name: tuple[int, str] | None = None
    begins = False
    for token in _TOKEN.finditer(text):
        kind, value = token.lastgroup, token[0]
        if kind == "note" or (kind == "other" and value.isspace()):
            continue
        if value == "{" and name is not None and _is_type(name[1]):
            opened.append(ObjectLiteral(name[1], name[0], token.start()))
            begins = True
        elif value in ("{", "(", "["):
            opened.append(None)
            begins = False
        elif value in ("}", ")", "]"):
            done = opened.pop() if opened else None
            if done is not None:
                yield done
            begins = False
        elif value == ",":
            begins = bool(opened) and opened[-1] is not None
        elif value != "?" or not begins:
            if begins and opened and opened[-1] is not None and kind in ("name", "quoted"):
                opened[-1].fields.append((token.start(), token.end(), value.strip("`")))
            begins = False
        name = (token.start(), re.sub(r"\s", "", value)) if kind == "name" else None


def _is_type(name: str) -> bool:
    return name in (JSON_PATCH_TYPE, "Object") or name.startswith("Object.")


def to_checked_form(text: str) -> str:
    """Return the expression with type names that can be declared; offsets do not change."""
    chars = list(text.replace(_ESCAPE_KEY_CALL, ESCAPE_KEY))
    for found in _find_object_literals(text):
        for place in range(found.start, found.brace):
            if chars[place] == ".":
                chars[place] = "_"
    return "".join(chars)


def to_runtime_form(text: str) -> str:
    """Return the expression with maps in place of object literals."""
    edits: list[tuple[int, int, str]] = []
    for found in _find_object_literals(text):
        kind = f'{{"{TYPE_KEY}": "{found.name}"'
        edits.append((found.start, found.brace + 1, f"{kind}, " if found.fields else kind))
        edits += [(start, end, f'"{name}"') for start, end, name in found.fields]
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text.replace(_ESCAPE_KEY_CALL, ESCAPE_KEY)


def declare_types(text: str, pool: DescriptorPool) -> None:
    """Declare the types of an expression's object literals."""
    shown: dict[str, set[str]] = {JSON_PATCH_TYPE: {"value"}, "Object": set()}
    for found in _find_object_literals(text):
        names = shown.setdefault(found.name, set())
        if found.name != JSON_PATCH_TYPE:
            names.update(name for _, _, name in found.fields)
    file = descriptor_pb2.FileDescriptorProto(
        name="made.proto", syntax="proto3", dependency=["google/protobuf/any.proto"]
    )
    for kind, names in shown.items():
        message = file.message_type.add(name=kind.replace(".", "_"))
        texts = _JSON_PATCH_FIELDS if kind == JSON_PATCH_TYPE else ()
        for number, name in enumerate((*texts, *sorted(names)), 1):
            made = message.field.add(
                name=name, json_name=f"f{number}", number=number, label=_Field.LABEL_OPTIONAL
            )
            if name in texts:
                made.type = _Field.TYPE_STRING
            else:
                made.type, made.type_name = _Field.TYPE_MESSAGE, ".google.protobuf.Any"
    pool.AddSerializedFile(any_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())


def to_json(value: Any, place: tuple[str, ...] = ()) -> Any:
    """Return a value as JSON, without the type names of its objects.

    Args:
        value: the value.
        place: the expected types; empty for any.

    Raises:
        EvaluationError: an object has another type than expected.
    """
    wrong: list[str] = []
    found = _to_json(value, place, wrong)
    if wrong:
        raise EvaluationError("type mismatch: " + "\n".join(wrong))
    return found


def _to_json(value: Any, place: tuple[str, ...], wrong: list[str]) -> Any:
    if isinstance(value, list):
        return [_to_json(item, place, wrong) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, dict):
        return value
    kind = value.get(TYPE_KEY)
    if kind is None:
        return {key: _to_json(item, place, wrong) for key, item in value.items()}
    place = place or tuple(kind.split("."))
    wanted = ".".join(place)
    if kind != wanted:
        wrong.append(
            f'unexpected type name "{kind}", expected "{wanted}", which matches field name path '
            "from root Object type"
        )
    return {
        key: _to_json(item, (*place, key), wrong) for key, item in value.items() if key != TYPE_KEY
    }
