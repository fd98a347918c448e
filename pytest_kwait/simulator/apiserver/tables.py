"""Table and PartialObjectMetadata responses: one row per object.

Source: k8s.io/apiserver pkg/registry/rest/table.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.field_errors import invalid_value
from pytest_kwait.simulator.api_errors import bad_request
from pytest_kwait.simulator.conversion import to_version_without_webhook
from pytest_kwait.simulator.protocol.printers.columns import (
    BUILT_IN_COLUMNS,
    GENERIC_COLUMNS,
    Columns,
    custom_resource_columns,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.scheme import Kind

_INCLUDE_OBJECT_POLICIES = ("None", "Metadata", "Object")


def to_partial_object_metadata(obj: Obj, version: str = "v1") -> Obj:
    """Return the object's metadata as a PartialObjectMetadata."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": obj["metadata"],
    }


def find_columns(kind: Kind) -> Columns:
    """Return the columns of a kind; name and age by default."""
    # The columns are loaded with the first table.

    if kind.structure is not None:
        return custom_resource_columns(kind.structure.printer_columns)
    return BUILT_IN_COLUMNS.get(kind.bucket, GENERIC_COLUMNS)


def check_table_options(query: Mapping[str, str]) -> None:
    """Check the `includeObject` parameter.

    Raises:
        StatusError: 400, it is unknown.
    """
    include = query.get("includeObject", "")
    if include not in ("", *_INCLUDE_OBJECT_POLICIES):
        wrong = invalid_value(
            "includeObject", include, "must be 'Metadata', 'Object', 'None', or empty"
        )
        raise bad_request(f"Unable to convert to Table as requested: {wrong}")


def table_row(kind: Kind, obj: Obj, include: str, version: str = "v1") -> Obj:
    """Return the row of a stored object."""
    cells: list[Any] = find_columns(kind).cells(obj)
    if include == "None":
        return {"cells": cells, "object": None}
    row_object = to_version_without_webhook(kind, obj)
    if include != "Object":
        row_object = to_partial_object_metadata(row_object, version)
    return {"cells": cells, "object": row_object}


def to_table(
    kind: Kind,
    objects: Sequence[Obj],
    metadata: Obj,
    query: Mapping[str, str],
    *,
    headed: bool = True,
    version: str = "v1",
) -> Obj:
    """Return a table of stored objects; of a watch only the first has columns."""
    include = query.get("includeObject", "")
    list_fields = ("resourceVersion", "continue", "remainingItemCount")
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": {key: metadata[key] for key in list_fields if key in metadata},
        "columnDefinitions": find_columns(kind).definitions if headed else None,
        "rows": [table_row(kind, obj, include, version) for obj in objects],
    }
