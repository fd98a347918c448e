"""The types of built-in kinds: fields, forms, merge keys, defaults.

They come from the server's own OpenAPI document (`data/schemas.json.gz`) and from what its dry-run
creates showed (`data/defaults.json.gz`).
"""

from __future__ import annotations

from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.registry import read_data

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

__all__ = [
    "Form",
    "Shape",
    "Struct",
    "learned_defaults",
    "schemas",
    "shape_of",
    "struct_of",
]

_REF = len("#/components/schemas/")
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"


_TIMED = frozenset({"ContainerStateRunning", "ContainerStateTerminated", "EventSeries"})


class Form(Enum):
    """What a value is made of."""

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
    """One value's type, as a field, an item of a list or a value of a map has it."""

    __slots__ = ("_item", "_ref", "_struct", "default", "form", "go", "node")

    def __init__(self, node: Obj) -> None:
        self.node = node
        self.default: Any = node.get("default")
        self._ref: str = node.get("$ref", "")[_REF:]
        target = schemas().get(self._ref, {}) if self._ref else node
        self.form = _form(self._ref, target)
        self.go = _go_name(self._ref, target, self.form)
        self._item: Shape | None = None
        self._struct: Struct | None = None

    @property
    def item(self) -> Shape:
        """The type of a list's items or of a map's values."""
        if self._item is None:
            target = schemas()[self._ref] if self._ref else self.node
            self._item = Shape(target.get("items") or target.get("additionalProperties") or {})
        return self._item

    @property
    def struct(self) -> Struct:
        """The fields, where the form is STRUCT."""
        if self._struct is None:
            self._struct = _struct(self._ref) if self._ref else Struct("", self.node)
        return self._struct

    @property
    def list_type(self) -> str:
        """`atomic`, `set` or `map`: how server-side apply merges the list."""
        return str(self.node.get("x-kubernetes-list-type", "atomic"))

    @property
    def map_keys(self) -> list[str]:
        """The fields that tell items of a `map` list apart."""
        keys: list[str] = self.node.get("x-kubernetes-list-map-keys", [])
        return keys

    @property
    def merge_key(self) -> str:
        """The field that a strategic merge patch tells items apart by; empty for none."""
        return str(self.node.get("x-kubernetes-patch-merge-key", ""))

    @property
    def patch_strategy(self) -> str:
        """`merge`, `replace`, `retainKeys`, or two of them joined by a comma."""
        return str(self.node.get("x-kubernetes-patch-strategy", ""))

    @property
    def atomic(self) -> bool:
        """Whether server-side apply owns the whole value or nothing of it."""
        if self.form is Form.LIST:
            return self.list_type == "atomic"
        target = schemas()[self._ref] if self._ref else self.node
        return "atomic" in (
            self.node.get("x-kubernetes-map-type"),
            target.get("x-kubernetes-map-type"),
        ) or self.form not in (Form.STRUCT, Form.MAP)


class Filler:
    """A field's default that the server has shown and OpenAPI does not tell."""

    __slots__ = ("default", "form")

    def __init__(self, default: Any) -> None:
        self.default = default
        self.form = Form.ANY


class Struct:
    """A type with named fields."""

    __slots__ = ("always", "fields", "go", "name", "required")

    def __init__(self, name: str, schema: Obj) -> None:
        self.name = name
        self.go = name.rpartition(".")[2]
        self.required = frozenset(schema.get("required", ()))
        self.fields = {field: Shape(node) for field, node in schema.get("properties", {}).items()}
        self.always: list[tuple[str, Shape | Filler]] = (
            [(field, shape) for field, shape in self.fields.items() if shape.default is not None]
            + [
                (field, Filler(None))
                for field, shape in self.fields.items()
                if shape.form is Form.TIME and _always_timed(self.go)
            ]
            + [
                (field, Filler(value))
                for field, value in learned_defaults().get("types", {}).get(name, {}).items()
            ]
        )


@cache
def schemas() -> dict[str, Obj]:
    """All schemas by name, read once and only when first needed."""
    data: dict[str, Obj] = read_data("schemas.json.gz")
    return data


@cache
def learned_defaults() -> dict[str, Any]:
    """What `e2e/registry/defaults.py` learned: defaults by type, and facts by resource."""
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
    """The type of a built-in kind."""
    return _struct(_by_kind()[(group, version, kind)])


@cache
def shape_of(group: str, version: str, kind: str) -> Shape:
    """The type of a built-in kind as a value's type."""
    return Shape({"$ref": "#/components/schemas/" + _by_kind()[(group, version, kind)]})


def _always_timed(go: str) -> bool:
    """Whether the type's times are no pointers, and so are written as `null` where unset."""
    return go.endswith("Condition") or go in _TIMED


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
    """The Go type that a decoding error names."""
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
