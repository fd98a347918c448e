"""Label selectors of pods and pod groups, as the API has them.

Source: apimachinery, meta/v1/helpers.go, `LabelSelectorAsSelector`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.labels import LabelSelector, Requirement
from pytest_kwait.scheduler.framework.invalid_objects import (
    InvalidObject,
    get_mapping,
    get_mappings,
    get_string,
    get_strings,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["read_label_selector"]

_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


def read_label_selector(
    selector: Mapping[str, Any] | None, path: str = "labelSelector"
) -> LabelSelector:
    """Return the selector of a `LabelSelector` object; None selects nothing.

    Raises:
        InvalidObject: the object is malformed.
    """
    if selector is None:
        return LabelSelector(nothing=True)
    labels = get_mapping(selector, "matchLabels", path)
    requirements = [
        Requirement(key, "in", frozenset((get_string(labels, key, f"{path}.matchLabels"),)))
        for key in labels
    ]
    for index, one in enumerate(get_mappings(selector, "matchExpressions", path)):
        where = f"{path}.matchExpressions[{index}]"
        operator = one.get("operator")
        if operator not in _OPERATORS:
            raise InvalidObject(
                f"{where}.operator", operator, f"use one of {', '.join(_OPERATORS)}"
            )
        key = get_string(one, "key", where, required=True)
        values = frozenset(get_strings(one, "values", where))
        requirements.append(Requirement(key, _OPERATORS[operator], values))
    return LabelSelector(requirements)
