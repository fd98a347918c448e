"""Compilation of CEL expressions about requests: of webhooks, policies and their variables.

Covers object literals: `Object{…}`, `Object.spec{…}` and `JSONPatch{…}`. The runtime can only
build messages of types that are declared with all their fields. Here any field is valid, so types
are declared from the expression before it is checked, and it builds maps when it runs; one key of
such a map holds the type's name.

Source: k8s.io/apiserver pkg/admission/plugin/cel/compile.go, pkg/cel/environment,
pkg/cel/mutation/{jsonpatch,typeresolver}.go, dynamic/objects.go.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from google.protobuf import any_pb2, descriptor_pb2

from pytest_kwait.simulator.cel.expressions import (
    CompilationError,
    EvaluationError,
    get_checked_type,
)
from pytest_kwait.simulator.cel.library.jsonpatch import ESCAPE_KEY
from pytest_kwait.simulator.cel.schema_types import SchemaTypes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from google.protobuf.descriptor_pool import DescriptorPool

    from pytest_kwait.simulator.objects import Obj

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
_STRING: Obj = {"type": "string"}
_STRING_LIST: Obj = {"type": "array", "items": _STRING}
_ANY: Obj = {"x-kubernetes-int-or-string": True}

_USER: Obj = {
    "type": "object",
    "properties": {
        "username": _STRING,
        "uid": _STRING,
        "groups": _STRING_LIST,
        "extra": {"type": "object", "additionalProperties": _STRING_LIST},
    },
}

_INTEGER: Obj = {"type": "integer"}
_TIME: Obj = {"type": "string", "format": "date-time"}
_STRING_MAP: Obj = {"type": "object", "additionalProperties": _STRING}
_CONDITION: Obj = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("status", "type", "message", "reason"), _STRING),
        "lastTransitionTime": _TIME,
    },
}
_NAMESPACE: Obj = {
    "type": "object",
    "properties": {
        "metadata": {
            "type": "object",
            "properties": {
                **dict.fromkeys(
                    ("name", "generateName", "namespace", "UID", "resourceVersion"), _STRING
                ),
                **dict.fromkeys(("labels", "annotations"), _STRING_MAP),
                **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), _TIME),
                **dict.fromkeys(("deletionGracePeriodSeconds", "generation"), _INTEGER),
                "finalizers": _STRING_LIST,
            },
        },
        "spec": {"type": "object", "properties": {"finalizers": _STRING_LIST}},
        "status": {
            "type": "object",
            "properties": {"conditions": {"type": "array", "items": _CONDITION}, "phase": _STRING},
        },
    },
}
_CEL_TYPES: dict[str, Obj] = {
    "BOOL": {"type": "boolean"},
    "INT": {"type": "integer"},
    "STRING": _STRING,
}
_RESULT_TYPES = {"ApplyConfiguration": "Object", "JSONPatch": "list(JSONPatch)"}
_GENERATED_TYPE = re.compile(r"\bObject_[\w_]+")


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
    for literal in _find_object_literals(text):
        for place in range(literal.start, literal.brace):
            if chars[place] == ".":
                chars[place] = "_"
    return "".join(chars)


def to_runtime_form(text: str) -> str:
    """Return the expression with maps in place of object literals."""
    edits: list[tuple[int, int, str]] = []
    for literal in _find_object_literals(text):
        kind = f'{{"{TYPE_KEY}": "{literal.name}"'
        edits.append((literal.start, literal.brace + 1, f"{kind}, " if literal.fields else kind))
        edits += [(start, end, f'"{name}"') for start, end, name in literal.fields]
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text.replace(_ESCAPE_KEY_CALL, ESCAPE_KEY)


def declare_types(text: str, pool: DescriptorPool) -> None:
    """Declare the types of an expression's object literals."""
    fields_by_type: dict[str, set[str]] = {JSON_PATCH_TYPE: {"value"}, "Object": set()}
    for literal in _find_object_literals(text):
        names = fields_by_type.setdefault(literal.name, set())
        if literal.name != JSON_PATCH_TYPE:
            names.update(name for _, _, name in literal.fields)
    file = descriptor_pb2.FileDescriptorProto(
        name="made.proto", syntax="proto3", dependency=["google/protobuf/any.proto"]
    )
    for kind, names in fields_by_type.items():
        message = file.message_type.add(name=kind.replace(".", "_"))
        message.options.deprecated_legacy_json_field_conflicts = True
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
        place: the expected types; empty for any.

    Raises:
        EvaluationError: an object has another type than expected.
    """
    wrong: list[str] = []
    json_value = _to_json(value, place, wrong)
    if wrong:
        raise EvaluationError("type mismatch: " + "\n".join(wrong))
    return json_value


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
    expected_type = ".".join(place)
    if kind != expected_type:
        wrong.append(
            f'unexpected type name "{kind}", expected "{expected_type}", which matches field name '
            "path "
            "from root Object type"
        )
    return {
        key: _to_json(item, (*place, key), wrong) for key, item in value.items() if key != TYPE_KEY
    }


def _string_fields(*names: str) -> Obj:
    return {"type": "object", "properties": dict.fromkeys(names, _STRING)}


_GROUP_VERSION_KIND, _GROUP_VERSION_RESOURCE = (
    _string_fields("group", "version", "kind"),
    _string_fields("group", "version", "resource"),
)
_REQUEST: Obj = {
    "type": "object",
    "properties": {
        "kind": _GROUP_VERSION_KIND,
        "resource": _GROUP_VERSION_RESOURCE,
        "subResource": _STRING,
        "requestKind": _GROUP_VERSION_KIND,
        "requestResource": _GROUP_VERSION_RESOURCE,
        "requestSubResource": _STRING,
        "name": _STRING,
        "namespace": _STRING,
        "operation": _STRING,
        "userInfo": _USER,
        "dryRun": {"type": "boolean"},
        "options": _ANY,
    },
}


def get_expression_type(
    text: str,
    variables: Mapping[str, Obj] | None,
    *,
    params: bool,
    authorizer: bool = True,
    declare: Callable[[DescriptorPool], None] | None = None,
    schemas: Mapping[str, Obj] | None = None,
) -> str:
    """Return the type of an expression about a request.

    Args:
        variables: the types of the policy's variables; None where variables are not available.
        params: whether there are parameters.
        authorizer: whether the authorizer is available.
        declare: adds types of this expression alone.
        schemas: the known schemas of `object`, `oldObject` and `params`.

    Raises:
        CompilationError: the expression is invalid.
    """
    book = SchemaTypes(verbatim=True)
    types = dict.fromkeys(("object", "oldObject"), "dyn")
    types["namespaceObject"] = book.name_of(_NAMESPACE)
    types["request"] = book.name_of(_REQUEST)
    if variables is not None:
        types["variables"] = book.name_of({"type": "object", "properties": dict(variables)})
    if params:
        types["params"] = "dyn"
    for name, schema in (schemas or {}).items():
        types[name] = book.name_of(schema) or "dyn"
    if authorizer:
        types |= {"authorizer": "Authorizer", "authorizer.requestResource": "ResourceCheck"}
    pool = book.pool()
    if declare is not None:
        declare(pool)
    return get_checked_type(text, types, pool)


def compilation_error(
    text: str, result_type: str, variables: Mapping[str, Obj] | None, *, params: bool
) -> tuple[str, Obj]:
    """Return the compilation error of an expression, or else its type.

    Args:
        result_type: the required type; empty for any.
        variables: the policy's variables; None where variables are not available.
        params: whether there are parameters.
    """
    try:
        authorizer = result_type != "string"  # Message expressions have no authorizer.
        expression_type = get_expression_type(text, variables, params=params, authorizer=authorizer)
    except CompilationError as error:
        return f"compilation failed: {error}", _ANY
    if result_type and expression_type.lower() != result_type:
        return f"must evaluate to {result_type} but got {expression_type.lower()}", _ANY
    return "", variable_type(expression_type)


def variable_type(name: str) -> Obj:
    """Return the type of a policy's variable, by the type's name."""
    return _CEL_TYPES.get(name, _ANY)


def mutation_compilation_error(
    text: str, kind: str, variables: Mapping[str, Obj], *, params: bool
) -> str:
    """Return the compilation error of a mutation's expression; empty if it is valid.

    Args:
        kind: the type of the mutation.
        variables: the types of the policy's variables.
        params: whether there are parameters.
    """
    try:
        expression_type = get_expression_type(
            to_checked_form(text),
            variables,
            params=params,
            declare=lambda pool: declare_types(text, pool),
        )
    except CompilationError as error:
        return f"compilation failed: {_restore_type_names(str(error), text)}"
    type_text = _type_text(expression_type)
    return (
        ""
        if type_text == _RESULT_TYPES[kind]
        else f"must evaluate to {_RESULT_TYPES[kind]} but got {type_text}"
    )


def _restore_type_names(message: str, text: str) -> str:
    """Show a compiler message with the type names of the expression."""
    form = to_checked_form(text)
    for form_line, text_line in zip(form.splitlines(), text.splitlines(), strict=True):
        message = message.replace(f" | {form_line}\n", f" | {text_line}\n")
    message = message.replace(r"'\u003F'", "'?'")
    return _GENERATED_TYPE.sub(lambda match: match[0].replace("_", "."), message)


def _type_text(name: str) -> str:
    """Format a type as Kubernetes does."""
    text = re.sub(r"\b(?!Object|JSONPatch)[A-Z]+\b", lambda part: part[0].lower(), name)
    text = _GENERATED_TYPE.sub(lambda part: part[0].replace("_", "."), text)
    return text.replace("<", "(").replace(">", ")")
