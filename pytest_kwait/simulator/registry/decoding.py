"""What reading an object comes to: a clean object of its kind, and what was wrong but harmless.

Source: k8s.io/apimachinery pkg/runtime/serializer, k8s.io/apiserver pkg/endpoints/handlers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import bad_request
from pytest_kwait.simulator.codec.decode import Decoder
from pytest_kwait.simulator.codec.schema import Form, struct_of
from pytest_kwait.simulator.request_info import Caller, internal_caller

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.registry.strategies_init import Strategy

__all__ = ["decode", "decode_change"]


def decode_change(strategy: Strategy, obj: Obj, old: Obj, subresource: str | None) -> Obj:
    """`obj`, which a controller of this process made of `old`: only what differs is decoded.

    Raises:
        StatusError: 400 for a value of a wrong type.
    """
    kind = strategy.kind
    fields = struct_of(kind.group, kind.version, kind.kind).fields
    decoded = Decoder(kind)
    clean: Obj = {"kind": old["kind"], "apiVersion": old["apiVersion"]}
    changed = False
    if subresource == "status":
        obj = {**old, "metadata": obj["metadata"], "status": obj.get("status")}
    for name, value in obj.items():
        shape = fields.get(name)
        if name in clean or shape is None or value is None:
            continue
        if name in old and value == old[name]:
            clean[name] = dict(value) if name == "metadata" else old[name]
        elif isinstance(value, dict) and shape.form is Form.STRUCT:
            clean[name] = decoded.struct(value, shape.struct, f"{name}.", before=old.get(name))
            changed = changed or name not in ("metadata", "status")
        else:
            clean[name] = value
            changed = True
    if changed:
        return decode(strategy, clean, internal_caller())
    return clean


def decode(strategy: Strategy, obj: Obj, caller: Caller) -> Obj:
    """`obj` as its kind has it: typed, pruned, defaulted.

    Raises:
        StatusError: 400 for a value of a wrong type, or for unknown fields if they are refused.
    """
    kind = strategy.kind
    decoded = Decoder(kind)
    if kind.structure is not None:
        metadata = obj.get("metadata")
        if metadata is not None and not isinstance(metadata, dict):
            raise bad_request(f"{kind.kind}.metadata: expected an object")
        clean = kind.structure.decode(obj, decoded)
        decoded.add_custom_strict_errors(obj)
    else:
        clean = decoded.struct(obj, struct_of(kind.group, kind.version, kind.kind))
    complaints = [*caller.complaints, *decoded.complaints]
    if complaints and caller.field_validation != "Ignore":
        if caller.field_validation == "Strict":
            raise bad_request(
                f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
                f"strict decoding error: {', '.join(complaints)}"
            )
        for text in complaints:
            caller.warn(text)
    ordered: Obj = {"kind": kind.kind, "apiVersion": kind.api_version}
    ordered["metadata"] = clean.pop("metadata", None) or {}
    clean.pop("kind", None)
    clean.pop("apiVersion", None)
    ordered.update(clean)
    strategy.default(ordered)
    return ordered
