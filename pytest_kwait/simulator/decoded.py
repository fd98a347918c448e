"""What decoding an object into its Go type does to it.

Unknown fields are dropped and named, values of a wrong type are refused, fields that the server
always writes are filled with their zero value or default, and empty values that it never writes
are dropped.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.objects import clone
from pytest_kwait.simulator.schema import Form, Shape
from pytest_kwait.simulator.status_error import bad_request

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.registry import Kind
    from pytest_kwait.simulator.schema import Struct

__all__ = ["Decoded"]

_QUANTITY_FORM = re.compile(r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$")

_ZERO_DROPPED = frozenset(
    # OpenAPI does not tell a number or a bool that is omitted at zero from one that is a pointer.
    [
        "active",
        "availableReplicas",
        "concurrentConnections",
        "count",
        "currentNumberScheduled",
        "desiredHealthy",
        "failed",
        "fullyLabeledReplicas",
        "generation",
        "healthCheckNodePort",
        "hostIPC",
        "hostNetwork",
        "hostPID",
        "hostPort",
        "initialDelaySeconds",
        "minReadySeconds",
        "nodePort",
        "numberAvailable",
        "numberUnavailable",
        "observedGeneration",
        "paused",
        "publishNotReadyAddresses",
        "readyReplicas",
        "signal",
        "stdin",
        "stdinOnce",
        "succeeded",
        "tty",
        "unavailableReplicas",
        "unschedulable",
        "updatedNumberScheduled",
        "updatedReplicas",
    ]
)
_EMPTY_KEPT = frozenset({"storageClassName", "volumeAttributesClassName"})
"""Text fields that are pointers: an empty text is a value of its own."""


class Decoded:
    """The outcome of decoding one object: the clean object and what was wrong but harmless.

    Args:
        kind: the kind that the object is decoded into.
    """

    __slots__ = ("_kind", "unknown")

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self.unknown: list[str] = []

    def struct(self, value: Obj, struct: Struct, path: str = "") -> Obj:
        """`value` as the server would write it after reading it.

        Raises:
            StatusError: 400, a value has another JSON type than its field.
        """
        clean: Obj = {}
        fields = struct.fields
        for field, item in value.items():
            shape = fields.get(field)
            if shape is None:
                self.unknown.append(f"{path}{field}")
                continue
            if item is None:
                continue
            form = shape.form
            if form is Form.TEXT:
                if not isinstance(item, str):
                    raise self._mismatch(item, shape, struct, path + field)
                if item or shape.default == "" or field in _EMPTY_KEPT:
                    clean[field] = item
            elif form is Form.STRUCT:
                if not isinstance(item, dict):
                    raise self._mismatch(item, shape, struct, path + field)
                clean[field] = self.struct(item, shape.struct, f"{path}{field}.")
            elif form is Form.INTEGER:
                if type(item) is not int:
                    raise self._mismatch(item, shape, struct, path + field)
                if item or field not in _ZERO_DROPPED:
                    clean[field] = item
            elif form is Form.BOOL:
                if not isinstance(item, bool):
                    raise self._mismatch(item, shape, struct, path + field)
                if item or field not in _ZERO_DROPPED:
                    clean[field] = item
            else:
                found = self._other(item, shape, struct, path + field)
                if (
                    found
                    or not isinstance(found, list | dict)
                    or form is Form.ANY
                    or field in struct.required
                ):
                    clean[field] = found
        for field, filler in struct.always:
            if field not in clean:
                if isinstance(filler, Shape) and filler.form is Form.STRUCT:
                    clean[field] = self.struct({}, filler.struct)
                else:
                    clean[field] = clone(filler.default)
        return clean

    def _other(self, item: Any, shape: Shape, struct: Struct, path: str) -> Any:
        form = shape.form
        if form is Form.LIST:
            if not isinstance(item, list):
                raise self._mismatch(item, shape, struct, path)
            inner = shape.item
            return [
                self._value(one, inner, struct, f"{path}[{index}]")
                for index, one in enumerate(item)
            ]
        if form is Form.MAP:
            if not isinstance(item, dict):
                raise self._mismatch(item, shape, struct, path)
            inner = shape.item
            if inner.form is Form.TEXT:
                for one in item.values():
                    if not isinstance(one, str) and one is not None:
                        raise self._mismatch(one, inner, struct, path)
                return {key: one or "" for key, one in item.items()}
            return {
                key: self._value(one, inner, struct, f"{path}.{key}") for key, one in item.items()
            }
        if form is Form.QUANTITY:
            if isinstance(item, bool) or not isinstance(item, str | int | float):
                raise self._mismatch(item, shape, struct, path)
            if not _QUANTITY_FORM.match(str(item)):
                raise self._refused(
                    f"quantities must match the regular expression '{_QUANTITY_FORM.pattern}'"
                )
            return str(item)
        if form is Form.INT_OR_TEXT:
            if isinstance(item, bool) or not isinstance(item, str | int):
                raise self._mismatch(item, shape, struct, path)
        elif form in (Form.BYTES, Form.TIME):
            if not isinstance(item, str):
                raise self._mismatch(item, shape, struct, path)
        elif form is Form.NUMBER and (isinstance(item, bool) or not isinstance(item, int | float)):
            raise self._mismatch(item, shape, struct, path)
        return item

    def _value(self, item: Any, shape: Shape, struct: Struct, path: str) -> Any:
        form = shape.form
        if form is Form.STRUCT:
            if item is None:
                return self.struct({}, shape.struct)
            if not isinstance(item, dict):
                raise self._mismatch(item, shape, struct, path)
            return self.struct(item, shape.struct, path + ".")
        if form is Form.TEXT:
            if item is None:
                return ""
            if not isinstance(item, str):
                raise self._mismatch(item, shape, struct, path)
            return item
        if (form is Form.INTEGER and type(item) is not int) or (
            form is Form.BOOL and not isinstance(item, bool)
        ):
            raise self._mismatch(item, shape, struct, path)
        return self._other(item, shape, struct, path)

    def _mismatch(self, item: Any, shape: Shape, struct: Struct, path: str) -> Exception:
        given = {bool: "bool", int: "number", float: "number", str: "string", list: "array"}.get(
            type(item), "object"
        )
        field = re.sub(r"\[\d+\]", "", path)
        return self._refused(
            f"json: cannot unmarshal {given} into Go struct field {struct.go}.{field} "
            f"of type {shape.go}"
        )

    def _refused(self, why: str) -> Exception:
        kind = self._kind
        return bad_request(
            f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {why}'
        )
