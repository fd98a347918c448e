"""Typed access to the fields of pods and nodes, label selectors too; errors for invalid ones.

Source: apimachinery, meta/v1/helpers.go, `LabelSelectorAsSelector`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_kwait.apimachinery.selectors import LabelSelector, Requirement
from pytest_kwait.errors import InvalidArgument

_EMPTY: Mapping[str, Any] = {}
_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


class InvalidObject(InvalidArgument):
    """A field with an invalid value.

    Args:
        what: the field's path, for example `spec.containers[0].resources.requests.cpu`.
        valid: the valid values, as a phrase.
        source: the object, for example `pod default/web`; None while unknown.
    """


class InvalidPod(InvalidObject):
    """An unparsable pod, which the API server would have refused."""


class InvalidNode(InvalidObject):
    """An unparsable node, which the API server would have refused."""


def get_mapping(owner: Mapping[str, Any], name: str, path: str) -> Mapping[str, Any]:
    """Return the mapping `owner[name]`; empty if absent or null."""
    mapping = owner.get(name)
    if mapping is None:
        return _EMPTY
    if type(mapping) is not dict and not isinstance(mapping, Mapping):
        raise InvalidObject(f"{path}.{name}", mapping, "use a mapping")
    return mapping


def get_mappings(owner: Mapping[str, Any], name: str, path: str) -> list[Mapping[str, Any]]:
    """Return the list of mappings `owner[name]`; empty if absent or null."""
    mappings = owner.get(name)
    if mappings is None:
        return []
    if not isinstance(mappings, list):
        raise InvalidObject(f"{path}.{name}", mappings, "use a list")
    for index, item in enumerate(mappings):
        if type(item) is not dict and not isinstance(item, Mapping):
            raise InvalidObject(f"{path}.{name}[{index}]", item, "use a mapping")
    return mappings


def get_strings(owner: Mapping[str, Any], name: str, path: str) -> tuple[str, ...]:
    """Return the list of strings `owner[name]`; empty if absent or null."""
    items = owner.get(name)
    if items is None:
        return ()
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise InvalidObject(f"{path}.{name}", items, "use a list of strings")
    return tuple(items)


def get_string(owner: Mapping[str, Any], name: str, path: str, *, required: bool = False) -> str:
    """Return the string `owner[name]`; empty if absent or null.

    Args:
        name: the field.
        path: the mapping's path, for the error.
        required: whether an absent or empty string is an error.
    """
    value = owner.get(name)
    if isinstance(value, str) and (value or not required):
        return value
    if value is None and not required:
        return ""
    raise InvalidObject(f"{path}.{name}", value, "use a string")


def get_int(owner: Mapping[str, Any], name: str, path: str, default: int) -> int:
    """Return the whole number `owner[name]`; `default` if absent or null."""
    value = owner.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidObject(f"{path}.{name}", value, "use a whole number")
    return value


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
    for index, expression in enumerate(get_mappings(selector, "matchExpressions", path)):
        where = f"{path}.matchExpressions[{index}]"
        operator = expression.get("operator")
        if operator not in _OPERATORS:
            raise InvalidObject(
                f"{where}.operator", operator, f"use one of {', '.join(_OPERATORS)}"
            )
        key = get_string(expression, "key", where, required=True)
        values = frozenset(get_strings(expression, "values", where))
        requirements.append(Requirement(key, _OPERATORS[operator], values))
    return LabelSelector(requirements)
