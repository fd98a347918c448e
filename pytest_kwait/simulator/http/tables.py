"""Tables: what `kubectl get` shows, one row for an object.

Source: k8s.io/kubernetes pkg/printers/internalversion/printers.go, k8s.io/apiserver
pkg/registry/rest/table.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.http.columns import BUILT_IN, GENERIC, Columns
from pytest_kwait.simulator.http.custom_columns import custom_columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.registry import Kind

__all__ = ["partial_object", "row", "table"]


def partial_object(obj: Obj) -> Obj:
    """The object's metadata as an object of its own."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": obj["metadata"],
    }


def columns_of(kind: Kind) -> Columns:
    """The columns of a kind; name and age where it has none of its own."""
    if kind.structure is not None:
        return custom_columns(kind)
    return BUILT_IN.get(kind.bucket, GENERIC)


def row(kind: Kind, obj: Obj, include: str) -> Obj:
    """An object's row."""
    cells: list[Any] = columns_of(kind).cells(obj)
    if include == "None":
        return {"cells": cells, "object": None}
    return {"cells": cells, "object": obj if include == "Object" else partial_object(obj)}


def table(
    kind: Kind,
    objects: Sequence[Obj],
    metadata: Obj,
    query: Mapping[str, str],
    *,
    headed: bool = True,
) -> Obj:
    """The table of `objects`; a watch heads only its first one."""
    include = query.get("includeObject", "")
    kept = ("resourceVersion", "continue", "remainingItemCount")
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {key: metadata[key] for key in kept if key in metadata},
        "columnDefinitions": columns_of(kind).definitions if headed else None,
        "rows": [row(kind, obj, include) for obj in objects],
    }
