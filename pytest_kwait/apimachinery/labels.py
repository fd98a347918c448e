"""Label selectors judged here rather than by the server: for who asks a cache, not the API.

Source: apimachinery/pkg/labels/selector.go, Parse and Requirement.Matches.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from pytest_kwait.apimachinery.selectors import normalize_label_selector

if TYPE_CHECKING:
    from pytest_kwait.apimachinery.selectors import Selector

__all__ = ["LabeledObject", "Labels", "compile_label_selector", "get_labels"]

Labels: TypeAlias = Mapping[str, str]
_Requirement: TypeAlias = Callable[[Labels], bool]

_COMMA_OUTSIDE_A_SET = re.compile(r",(?![^(]*\))")
_IN_A_SET = re.compile(r"(\S+)\s+(in|notin)\s*\((.*)\)")
_COMPARED = re.compile(r"(.*?)\s*(==|!=|=|<|>)\s*(.*)")


class _LabeledMetadata(TypedDict, total=False):
    labels: dict[str, str] | None


class LabeledObject(TypedDict, total=False):
    """The fields by which a label selector judges an object."""

    metadata: _LabeledMetadata


def get_labels(obj: Mapping[str, Any]) -> Labels:
    """Return an object's labels; none where they are null or of another shape."""
    metadata = obj.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, Mapping) else None
    return labels if isinstance(labels, Mapping) else {}


def compile_label_selector(selector: Selector | None) -> Callable[[Labels], bool]:
    """Return the function that says whether labels are selected; None and "" select everything.

    Args:
        selector: text or mapping, as for a list.

    Raises:
        InvalidArgument: none that the server would take.
    """
    return _compile(normalize_label_selector(selector) or "")


@functools.lru_cache(maxsize=256)
def _compile(text: str) -> Callable[[Labels], bool]:
    terms = [term.strip() for term in _COMMA_OUTSIDE_A_SET.split(text)]
    requirements = [_parse_requirement(term) for term in terms if term]

    def matches(labels: Labels) -> bool:
        return all(requirement(labels) for requirement in requirements)

    return matches


def _parse_requirement(term: str) -> _Requirement:
    """Return what one term, known to be well formed, asks of labels."""
    if term.startswith("!"):
        absent = term[1:].strip()
        return lambda labels: absent not in labels
    in_a_set = _IN_A_SET.fullmatch(term)
    if in_a_set is not None:
        key, operator, values = in_a_set.groups()
        chosen = frozenset(value.strip() for value in values.split(","))
        if operator == "in":
            return lambda labels: key in labels and labels[key] in chosen
        return lambda labels: key not in labels or labels[key] not in chosen
    compared = _COMPARED.fullmatch(term)
    if compared is None:
        return lambda labels: term in labels
    key, operator, value = compared.groups()
    match operator:
        case "!=":
            return lambda labels: key not in labels or labels[key] != value
        case "<" | ">":
            return functools.partial(_is_beyond, key, operator, int(value))
        case _:
            return lambda labels: key in labels and labels[key] == value


def _is_beyond(key: str, operator: str, limit: int, labels: Labels) -> bool:
    try:
        number = int(labels.get(key, ""))
    except ValueError:
        return False
    return number < limit if operator == "<" else number > limit
