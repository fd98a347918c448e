"""Node selectors and node affinity: matching nodes by labels and names.

Source: component-helpers, scheduling/corev1/nodeaffinity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.scheduler.framework.object_fields import (
    InvalidObject,
    get_int,
    get_mapping,
    get_mappings,
    get_string,
    get_strings,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_NODE_AFFINITY = "spec.affinity.nodeAffinity"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_FIELD_OPERATORS = ("In", "NotIn")
_FIELD = "metadata.name"

# (key, operator, values)
_Requirement = tuple[str, str, tuple[str, ...]]


class NodeSelectorTerm:
    """A node selector term: all its requirements must match; an empty one never matches.

    Args:
        term: the term as the API has it.
        path: its path, for the error.

    Raises:
        InvalidObject: the term is invalid.

    Source: component-helpers, scheduling/corev1/nodeaffinity/nodeaffinity.go, `nodeSelectorTerm`.
    """

    __slots__ = ("_fields", "_labels", "unreadable")

    def __init__(self, term: Mapping[str, Any], path: str) -> None:
        self._labels = _requirements(term, "matchExpressions", path, _OPERATORS)
        self._fields = _requirements(term, "matchFields", path, _FIELD_OPERATORS)
        #: Errors that the API accepts although the term can never hold: Gt and Lt of a non-number.
        self.unreadable: InvalidObject | None = None
        for index, (_, operator, values) in enumerate(self._labels):
            if operator in ("Gt", "Lt") and _parse_int(values) is None:
                where = f"{path}.matchExpressions[{index}].values"
                valid = f"{operator} compares with one whole number"
                self.unreadable = InvalidObject(where, list(values), valid)

    @property
    def empty(self) -> bool:
        """True if it has no requirements."""
        return not (self._labels or self._fields)

    @property
    def names(self) -> frozenset[str] | None:
        """The only node names that it can match; None for any."""
        node_names: frozenset[str] | None = None
        for key, operator, values in self._fields:
            if key == _FIELD and operator == "In":
                node_names = (
                    frozenset(values) if node_names is None else node_names & frozenset(values)
                )
        return node_names

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether it holds for the node with this name and these labels."""
        if self.empty or self.unreadable is not None:
            return False
        for key, operator, values in self._labels:
            if not _holds(labels.get(key), operator, values):
                return False
        for key, operator, values in self._fields:
            if not _holds(name if key == _FIELD else None, operator, values):
                return False
        return True


def _requirements(
    term: Mapping[str, Any], field: str, path: str, operators: tuple[str, ...]
) -> list[_Requirement]:
    requirements: list[_Requirement] = []
    for index, expression in enumerate(get_mappings(term, field, path)):
        where = f"{path}.{field}[{index}]"
        operator = expression.get("operator")
        if operator not in operators:
            valid = f"use one of {', '.join(operators)}"
            raise InvalidObject(f"{where}.operator", operator, valid)
        key = get_string(expression, "key", where, required=True)
        requirements.append((key, operator, get_strings(expression, "values", where)))
    return requirements


def _holds(actual: str | None, operator: str, values: tuple[str, ...]) -> bool:
    match operator:
        case "In":
            return actual is not None and actual in values
        case "NotIn":
            return actual is None or actual not in values
        case "Exists":
            return actual is not None
        case "DoesNotExist":
            return actual is None
    number, bound = _parse_int(() if actual is None else (actual,)), _parse_int(values)
    if number is None or bound is None:
        return False
    return number > bound if operator == "Gt" else number < bound


def _parse_int(values: tuple[str, ...]) -> int | None:
    text = values[0] if len(values) == 1 else ""
    digits = text[1:] if text[:1] in ("+", "-") else text
    return int(text) if digits.isascii() and digits.isdigit() else None


class RequiredNodeAffinity:
    """The `nodeSelector` and the required node affinity of a pod.

    Args:
        spec: the pod's spec.

    Raises:
        InvalidObject: the spec is invalid.

    Source: component-helpers, scheduling/corev1/nodeaffinity/nodeaffinity.go,
    `GetRequiredNodeAffinity`.
    """

    __slots__ = ("_labels", "_terms", "names")

    def __init__(self, spec: Mapping[str, Any]) -> None:
        selector = get_mapping(spec, "nodeSelector", "spec")
        for key in selector:
            get_string(selector, key, "spec.nodeSelector")
        self._labels = tuple(selector.items())
        self._terms: tuple[NodeSelectorTerm, ...] | None = None
        #: The only node names that it can match; None for any.
        self.names: frozenset[str] | None = None
        affinity = get_mapping(
            get_mapping(spec, "affinity", "spec"), "nodeAffinity", "spec.affinity"
        )
        if affinity.get(_REQUIRED) is None:
            return
        required = get_mapping(affinity, _REQUIRED, _NODE_AFFINITY)
        self._terms = _terms(required, f"{_NODE_AFFINITY}.{_REQUIRED}")
        names = [term.names for term in self._terms]
        if names and None not in names:
            self.names = frozenset().union(
                *(term_names for term_names in names if term_names is not None)
            )

    def __bool__(self) -> bool:
        return bool(self._labels) or self._terms is not None

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether the node with this name and these labels is one of them."""
        for key, value in self._labels:
            if labels.get(key) != value:
                return False
        return self._terms is None or any(term.matches(name, labels) for term in self._terms)


def _terms(selector: Mapping[str, Any], path: str) -> tuple[NodeSelectorTerm, ...]:
    terms = get_mappings(selector, "nodeSelectorTerms", path)
    return tuple(
        NodeSelectorTerm(term, f"{path}.nodeSelectorTerms[{index}]")
        for index, term in enumerate(terms)
    )


def read_preferred_node_affinity(spec: Mapping[str, Any]) -> list[tuple[int, NodeSelectorTerm]]:
    """Return the weights and terms of a pod's preferred node affinity.

    Raises:
        InvalidObject: the field is invalid.

    Source: component-helpers, scheduling/corev1/nodeaffinity/nodeaffinity.go,
    `NewPreferredSchedulingTerms`.
    """
    affinity = get_mapping(get_mapping(spec, "affinity", "spec"), "nodeAffinity", "spec.affinity")
    terms: list[tuple[int, NodeSelectorTerm]] = []
    for index, preferred_term in enumerate(get_mappings(affinity, _PREFERRED, _NODE_AFFINITY)):
        where = f"{_NODE_AFFINITY}.{_PREFERRED}[{index}]"
        weight = get_int(preferred_term, "weight", where, 0)
        term = NodeSelectorTerm(
            get_mapping(preferred_term, "preference", where), f"{where}.preference"
        )
        if weight and not term.empty:
            terms.append((weight, term))
    return terms
