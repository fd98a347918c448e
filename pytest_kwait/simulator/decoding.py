"""What reading an object comes to: a clean object of its kind, and what was wrong but harmless.

Source: k8s.io/apimachinery pkg/runtime/serializer, k8s.io/apiserver pkg/endpoints/handlers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.schema import Decoded, struct_of
from pytest_kwait.simulator.status_error import bad_request

if TYPE_CHECKING:
    from pytest_kwait.simulator.caller import Caller
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.strategies import Strategy

__all__ = ["decode"]


def decode(strategy: Strategy, obj: Obj, caller: Caller) -> Obj:
    """`obj` as its kind has it: typed, pruned, defaulted.

    Raises:
        StatusError: 400 for a value of a wrong type, or for unknown fields if they are refused.
    """
    kind = strategy.kind
    metadata = obj.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise bad_request(f"{kind.kind}.metadata: expected an object")
    decoded = Decoded(kind)
    if kind.structure is not None:
        clean = kind.structure.decode(obj, decoded)
    else:
        clean = decoded.struct(obj, struct_of(kind.group, kind.version, kind.kind))
    if decoded.unknown and caller.field_validation != "Ignore":
        fields = sorted(decoded.unknown) if kind.custom else decoded.unknown
        texts = [f'unknown field "{field}"' for field in fields]
        if caller.field_validation == "Strict":
            raise bad_request(
                f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
                f"strict decoding error: {', '.join(texts)}"
            )
        for text in texts:
            caller.warn(text)
    ordered: Obj = {"kind": kind.kind, "apiVersion": kind.api_version}
    ordered["metadata"] = clean.pop("metadata", None) or {}
    clean.pop("kind", None)
    clean.pop("apiVersion", None)
    ordered.update(clean)
    strategy.default(ordered)
    return ordered
