"""The types of built-in kinds: fields, forms, merge keys, defaults, Go types.

They come from the server's own OpenAPI document (`data/schemas.json.gz`), from the Go types behind
it (`data/gotypes.json.gz`, which `tools/simulator_data/go_types.py` makes by reflection) and from
the defaults that its dry-run creates showed (`data/defaults.json.gz`).
"""

from __future__ import annotations

import re
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_kwait.simulator.generated_data import read_data

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.objects import Obj

_CONTAINER = re.compile(r"^(\[\]|map\[[\w.]*\])")
_REF = len("#/components/schemas/")
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"

_NEVER_EMPTY = frozenset(
    # Lists that validation wants something in: no object that is stored shows how Go writes none.
    [
        ("CustomResourceDefinitionSpec", "versions"),
        ("DeviceClaim", "requests"),
        ("HPAScalingRules", "policies"),
        ("HTTPIngressRuleValue", "paths"),
        ("MutatingWebhook", "admissionReviewVersions"),
        ("NodeSelector", "nodeSelectorTerms"),
        ("PodFailurePolicyOnExitCodesRequirement", "values"),
        ("PodSpec", "containers"),
        ("PolicyRule", "verbs"),
        ("SuccessPolicy", "rules"),
        ("TopologySelectorLabelRequirement", "values"),
        ("ValidatingWebhook", "admissionReviewVersions"),
    ]
)
_EMPTY_IS_GIVEN = frozenset(
    # Lists that are another thing when they are given empty: nothing fills them then.
    [("HPAScalingRules", "policies")]
)
_UNCHECKED = frozenset(
    # Required by the schema, and not by validation.
    [("ScaleIOPersistentVolumeSource", "secretRef"), ("ScaleIOVolumeSource", "secretRef")]
)


class GoField(NamedTuple):
    """One field of a struct."""

    json: str
    """Its name in JSON; empty if it is an inline struct."""
    go: str
    """Go's name of its type, without the star of a pointer."""
    of: str
    """The full name of the type that it, its items or its values are made of."""
    number: int
    """Its number in protobuf, 0 for none."""
    pointer: bool
    omitted: bool
    """True for `omitempty`."""
    omitted_zero: bool
    """True for `omitzero`."""
    inline: bool
    mode: str
    """`list`, `map` or nothing."""
    within: tuple[str, ...] = ()
    """The inline structs that contain it, outermost first."""

    @property
    def cleared(self) -> bool:
        """Return whether an empty value is left out."""
        return self.omitted and not self.pointer


@cache
def _go_data() -> dict[str, Any]:
    data: dict[str, Any] = read_data("gotypes.json.gz")
    return data


@cache
def go_struct(name: str) -> tuple[GoField, ...] | None:
    """Return the fields of a Go struct; None for another or unknown type."""
    fields = _go_data()["types"].get(name)
    if fields is None:
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
        for json, go, of, number, flags in fields
    )


@cache
def go_fields(name: str) -> dict[str, GoField]:
    """Return the JSON fields of a struct, with those of inline structs."""
    return {field.json: field for field in _flatten_fields(name, ())}


def _flatten_fields(name: str, within: tuple[str, ...]) -> Iterator[GoField]:
    for field in go_struct(name) or ():
        if field.inline:
            yield from _flatten_fields(field.of, (*within, field.go.rpartition(".")[2]))
        else:
            yield field._replace(within=within)


def go_base(name: str) -> str:
    """Return the underlying type of a named type: `string`, `slice string`; else `name`."""
    base: str = _go_data()["bases"].get(name, name)
    return base


def go_kinds() -> dict[str, str]:
    """The full names of kinds by `apps/v1 Deployment`."""
    kinds: dict[str, str] = _go_data()["kinds"]
    return kinds


@cache
def unserved_kinds() -> frozenset[str]:
    """The kinds in versions that are decoded and not served, as `policy/v1beta1 Eviction`."""
    return frozenset(_go_data()["unserved"])


def go_item(go: str) -> str:
    """Return Go's type of the items of a list or map; empty if unknown."""
    match = _CONTAINER.match(go)
    return go[match.end() :] if match else ""


class Form(Enum):
    """The form of a value."""

    TEXT = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOL = "bool"
    LIST = "list"
    MAP = "map"
    STRUCT = "struct"
    ANY = "any"
    INT_OR_TEXT = "int-or-string"
    QUANTITY = "quantity"
    BYTES = "bytes"
    TIME = "time"


class Shape:
    """The type of a field, of a list's items or of a map's values.

    Args:
        node: the value's schema.
        go: Go's name of its type, empty if unknown.
        field: the field of Go's struct that it is, None for items, values and custom kinds.
    """

    __slots__ = (
        "_atomic",
        "_item",
        "_ref",
        "_struct",
        "default",
        "field",
        "form",
        "go",
        "node",
        "null_when_empty",
    )

    def __init__(self, node: Obj, go: str = "", field: GoField | None = None) -> None:
        self.node = node
        self.default: Any = node.get("default")
        self.field = field
        self._ref: str = node.get("$ref", "")[_REF:]
        target = schemas().get(self._ref, {}) if self._ref else node
        self.form = _form(self._ref, target)
        self.go = go or _go_name(self._ref, target, self.form)
        self.null_when_empty = field is not None and not field.omitted and not field.pointer
        self._atomic: bool | None = None
        self._item: Shape | None = None
        self._struct: Struct | None = None

    @property
    def item(self) -> Shape:
        """The type of a list's items or of a map's values."""
        if self._item is None:
            target = schemas()[self._ref] if self._ref else self.node
            node = target.get("items") or target.get("additionalProperties") or {}
            self._item = Shape(node, go_item(self.go))
        return self._item

    @property
    def struct(self) -> Struct:
        """The fields of the form STRUCT."""
        if self._struct is None:
            self._struct = _struct(self._ref) if self._ref else Struct("", self.node)
        return self._struct

    @property
    def cleared(self) -> bool:
        """Return whether an empty value counts as absent."""
        return self.field is None or self.field.cleared

    @property
    def zero(self) -> Any:
        """The value of a null that is not nullable."""
        return _ZEROS.get(self.form)

    @property
    def list_type(self) -> str:
        """`atomic`, `set` or `map`: how server-side apply merges the list."""
        return str(self.node.get("x-kubernetes-list-type", "atomic"))

    @property
    def map_keys(self) -> list[str]:
        """The key fields of a `map` list."""
        keys: list[str] = self.node.get("x-kubernetes-list-map-keys", [])
        return keys

    @property
    def merge_key(self) -> str:
        """The merge key of strategic merge patches; empty for none."""
        return str(self.node.get("x-kubernetes-patch-merge-key", ""))

    @property
    def patch_strategy(self) -> str:
        """`merge`, `replace`, `retainKeys`, or two of them joined by a comma."""
        return str(self.node.get("x-kubernetes-patch-strategy", ""))

    @property
    def atomic(self) -> bool:
        """Return whether server-side apply owns the value as a whole."""
        if self._atomic is None:
            self._atomic = self._is_atomic()
        return self._atomic

    def _is_atomic(self) -> bool:
        if self.form is Form.LIST:
            return self.list_type == "atomic"
        target = schemas()[self._ref] if self._ref else self.node
        map_type = self.node.get("x-kubernetes-map-type") or target.get("x-kubernetes-map-type")
        return map_type == "atomic" or self.form not in (Form.STRUCT, Form.MAP)


_ZEROS = {
    Form.TEXT: "",
    Form.INTEGER: 0,
    Form.NUMBER: 0,
    Form.BOOL: False,
    Form.BYTES: "",
    Form.QUANTITY: "0",
    Form.INT_OR_TEXT: 0,
}


class Struct:
    """A type with named fields."""

    __slots__ = ("_zero", "always", "fields", "go", "name", "required")

    def __init__(self, name: str, schema: Obj) -> None:
        self.name = name
        self.go = name.rpartition(".")[2]
        self.required = frozenset(schema.get("required", ()))
        known = go_fields(name)
        self.fields: dict[str, Shape] = {}
        for field, node in schema.get("properties", {}).items():
            about = known.get(field)
            if about is not None and (self.go, field) in _EMPTY_IS_GIVEN:
                about = about._replace(omitted=False)
            shape = self.fields[field] = Shape(node, about.go if about else "", about)
            if (self.go, field) in _NEVER_EMPTY:
                shape.null_when_empty = False
        self.always = tuple(self._fillers())
        """Fields that are written even where they are not given: name, a struct's type or value."""
        self._zero: Obj | None = None

    @property
    def zero(self) -> Obj:
        """The JSON of Go's zero value, which has no defaults; it is shared, not to be changed."""
        if self._zero is None:
            self._zero = dict(self._iter_zeros())
        return self._zero

    def _iter_zeros(self) -> Iterator[tuple[str, Any]]:
        for name, shape in self.fields.items():
            field = shape.field
            if field is None or field.omitted_zero:
                continue
            if field.pointer or field.mode or shape.form in (Form.LIST, Form.MAP, Form.BYTES):
                if not field.omitted:
                    yield name, None
            elif shape.form is Form.STRUCT:
                yield name, shape.struct.zero
            elif not field.omitted or shape.form not in _SCALARS:
                yield name, shape.zero

    def _fillers(self) -> Iterator[tuple[str, Shape | None, Any]]:
        learned = learned_defaults().get("types", {}).get(self.name, {})
        for name, shape in self.fields.items():
            field = shape.field
            if name in learned:
                yield name, None, learned[name]
            elif shape.default or (shape.default == "" and field is not None and field.pointer):
                yield name, None, shape.default
            elif shape.default is not None and field is None:
                yield name, shape if shape.form is Form.STRUCT else None, shape.default
            elif field is None or field.omitted_zero or field.pointer:
                # Validation wants the other pointers that Go would write as null.
                optional = name not in self.required or (self.go, name) in _UNCHECKED
                if field is not None and field.pointer and not field.omitted and optional:
                    yield name, None, None
            elif field.mode or shape.form in (Form.LIST, Form.MAP, Form.BYTES):
                if shape.null_when_empty:
                    yield name, None, None
            elif shape.form is Form.STRUCT:
                yield name, shape, None
            elif not field.omitted or shape.form not in _SCALARS:
                yield name, None, shape.zero


_SCALARS = (Form.TEXT, Form.INTEGER, Form.NUMBER, Form.BOOL)


@cache
def schemas() -> dict[str, Obj]:
    """Return all schemas by name; read on first use."""
    data: dict[str, Obj] = read_data("schemas.json.gz")
    return data


@cache
def learned_defaults() -> dict[str, Any]:
    """Return the defaults by type and facts by resource of `tools/simulator_data/defaults.py`."""
    data: dict[str, Any] = read_data("defaults.json.gz")
    return data


@cache
def _struct(name: str) -> Struct:
    return Struct(name, schemas()[name])


@cache
def _by_kind() -> dict[tuple[str, str, str], str]:
    return {
        (entry["group"], entry["version"], entry["kind"]): name
        for name, schema in schemas().items()
        for entry in schema.get("x-kubernetes-group-version-kind", ())
    }


def struct_of(group: str, version: str, kind: str) -> Struct:
    """Return the type of a built-in kind."""
    return _struct(_by_kind()[(group, version, kind)])


def is_known(group: str, version: str, kind: str) -> bool:
    """Return whether a built-in kind exists, served or not."""
    return (group, version, kind) in _by_kind()


@cache
def shape_of(group: str, version: str, kind: str) -> Shape:
    """Return the type of a built-in kind as a value's type."""
    return Shape({"$ref": "#/components/schemas/" + _by_kind()[(group, version, kind)]})


@cache
def definition_schema() -> Shape:
    """Return the type of a schema in a definition of custom resources."""
    name = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
    return Shape({"$ref": f"#/components/schemas/{name}"}, "v1.JSONSchemaProps")


def _form(ref: str, target: Obj) -> Form:
    if ref == _QUANTITY:
        return Form.QUANTITY
    if target.get("format") == "int-or-string":
        return Form.INT_OR_TEXT
    kind = target.get("type")
    if kind == "string":
        return {"byte": Form.BYTES, "date-time": Form.TIME}.get(target.get("format", ""), Form.TEXT)
    if kind == "array":
        return Form.LIST
    if kind == "object":
        if "properties" in target:
            return Form.STRUCT
        return Form.MAP if isinstance(target.get("additionalProperties"), dict) else Form.ANY
    simple = {"integer": Form.INTEGER, "number": Form.NUMBER, "boolean": Form.BOOL}
    return simple.get(str(kind), Form.ANY)


def _go_name(ref: str, target: Obj, form: Form) -> str:
    """Return the Go type in decoding errors."""
    if ref:
        package, _, name = ref.rpartition(".")
        return f"{package.rpartition('.')[2]}.{name}"
    if form is Form.LIST:
        return "[]" + Shape(target.get("items") or {}).go
    if form is Form.MAP:
        return "map[string]" + Shape(target["additionalProperties"]).go
    if form is Form.INTEGER:
        return str(target.get("format", "int64"))
    return {"string": "string", "boolean": "bool", "number": "float64"}.get(
        str(target.get("type")), "interface {}"
    )
