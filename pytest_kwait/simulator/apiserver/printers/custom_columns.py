"""The columns that a CustomResourceDefinition names by JSONPath.

Source: k8s.io/apiextensions-apiserver pkg/registry/customresource/tableconvertor.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.apiserver.printers.ages import age_cell, elapsed_text
from pytest_kwait.simulator.apiserver.printers.columns import Columns, column_definition

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.scheme import Kind

__all__ = ["custom_resource_columns", "find_json_path"]

_PATH_STEP = re.compile(
    r"\.?([A-Za-z0-9_-]+)|\[(\d+|\*)\]|\[['\"]([^'\"]+)['\"]\]|\[\?\(@\.(\w+)==['\"]([^'\"]*)['\"]\)\]"
)


def find_json_path(obj: Any, path: str) -> list[Any]:
    """The values that a simple JSONPath (fields, indexes, `[*]`, one equality filter) names."""
    values, text, at = [obj], path.replace("\\.", "\0"), 0
    while at < len(text):
        step = _PATH_STEP.match(text, at)
        if step is None:
            return []
        field, index, quoted, key, wanted = step.groups()
        following: list[Any] = []
        for value in values:
            name = field or quoted
            if name is not None:
                if isinstance(value, dict) and name.replace("\0", ".") in value:
                    following.append(value[name.replace("\0", ".")])
            elif isinstance(value, list):
                if key is not None:
                    following += [
                        one for one in value if isinstance(one, dict) and one.get(key) == wanted
                    ]
                elif index == "*":
                    following += value
                elif int(index) < len(value):
                    following.append(value[int(index)])
        values, at = following, step.end()
    return values


def custom_resource_columns(kind: Kind) -> Columns:
    """Name, then the definition's own columns; age where it has none."""
    structure = kind.structure
    printed = structure.printer_columns if structure is not None else []
    if not printed:
        return Columns(
            [column_definition("Name", form="name"), column_definition("Age", "date")],
            lambda obj: [obj["metadata"]["name"], age_cell(obj)],
        )
    heads = [column_definition("Name", form="name")]
    heads += [
        column_definition(
            column["name"],
            column["type"],
            column.get("priority", 0),
            column.get("format", ""),
            column.get("description", ""),
        )
        for column in printed
    ]

    def cells(obj: Obj) -> list[Any]:
        return [obj["metadata"]["name"], *(_custom_cell(obj, column) for column in printed)]

    return Columns(heads, cells)


def _custom_cell(obj: Obj, column: Obj) -> Any:
    values = find_json_path(obj, column["jsonPath"])
    if not values:
        return None
    value = values[0]
    if column["type"] == "date" and isinstance(value, str):
        return elapsed_text(value)
    if column["type"] == "integer" and isinstance(value, int):
        return value
    if column["type"] == "number" and isinstance(value, int | float):
        return value
    if column["type"] == "boolean" and isinstance(value, bool):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if column["type"] != "string" or value is None:
        return None
    if isinstance(value, dict | list):
        return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    return str(value)
