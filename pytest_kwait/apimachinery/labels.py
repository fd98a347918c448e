"""Label and field selectors: validate, normalize, format and match.

A selector is a string or a mapping, as users write it; the API takes the string. `LabelSelector`
objects, as they stand in a spec, are formatted to the same string. Matching is for readers of a
cache, who do not ask the server.

Source: apimachinery/pkg/labels/selector.go, Parse and Requirement.Matches.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypedDict

from pytest_kwait.errors import InvalidArgument

__all__ = [
    "LabeledObject",
    "Labels",
    "Selector",
    "compile_label_selector",
    "format_label_selector",
    "get_labels",
    "normalize_field_selector",
    "normalize_label_selector",
]

Selector: TypeAlias = str | Mapping[str, str | None]
"""The API's own text (`app=web,tier in (a,b)`), or a mapping of which every pair must hold."""


_EXAMPLE = "a label selector is written like 'app=web,tier in (a,b),!old'"

_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_PREFIX = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*"
_KEY = re.compile(rf"(?:(?P<prefix>{_PREFIX})/)?{_NAME}")
_VALUE = re.compile(rf"(?:{_NAME})?")
_WORD = r"[^\s=!(),<>]*"
_TERM = re.compile(
    rf"""\s*(?:
        !\s*(?P<absent>{_WORD})
      | (?P<set>{_WORD})\s+(?:in|notin)\s*\((?P<values>[^()]*)\)
      | (?P<compared>{_WORD})\s*[<>]\s*(?P<number>{_WORD})
      | (?P<equal>{_WORD})\s*(?:==|=|!=)\s*(?P<value>{_WORD})
      | (?P<present>{_WORD})
    )\s*(?P<end>,|$)""",
    re.VERBOSE,
)


def normalize_label_selector(selector: Selector | None, *, what: str = "selector") -> str | None:
    """Return the text of a label selector; None for one that selects everything.

    A pair of a mapping means equality, a label that only has to exist has the value None.

    Args:
        selector: text, mapping or None.
        what: the name of the argument, for the error.

    Raises:
        InvalidArgument: neither text nor a mapping of texts, or none that the server would take.

    Source: apimachinery/pkg/labels/selector.go, Parse; pkg/util/validation, IsQualifiedName,
    IsValidLabelValue.
    """
    text = _normalize(selector, what)
    if isinstance(selector, Mapping):
        # Of a pair, too: what is joined to a text could mean something else there.
        problems = (_find_problem_of_pair(key, value or "") for key, value in selector.items())
        problem = next(filter(None, problems), None)
        selector = dict(selector)
    else:
        problem = _find_problem(text) if text is not None else None
    if problem is not None:
        raise InvalidArgument(what, selector, f"{problem}; {_EXAMPLE}")
    return text


def normalize_field_selector(
    selector: Selector | None, *, what: str = "field_selector"
) -> str | None:
    """Return the text of a field selector; None for one that selects everything.

    Which fields there are is the server's to say: only the form of the value is looked at.

    Args:
        selector: text, mapping or None.
        what: the name of the argument, for the error.

    Raises:
        InvalidArgument: neither text nor a mapping of texts.
    """
    return _normalize(selector, what)


def _normalize(selector: Selector | None, what: str) -> str | None:
    if selector is None or isinstance(selector, str):
        return selector or None
    # From a marker or a manifest anything may come, whatever the types say.
    given: object = selector
    if not isinstance(given, Mapping):
        raise InvalidArgument(what, given, "a text like 'app=web' or a mapping of texts")
    terms = []
    for key, value in given.items():
        if not isinstance(key, str) or not isinstance(value, str | None):
            raise InvalidArgument(what, dict(given), "a mapping of texts to texts or None")
        terms.append(key if value is None else f"{key}={value}")
    return ",".join(terms) or None


def _find_problem(text: str) -> str | None:
    """Return why a text is no label selector; None where it is one."""
    if not text.strip():
        return None
    at, more = 0, True
    while more:
        term = _TERM.match(text, at)
        if term is None:
            return f"{text[at:].strip()!r} is no requirement on a label"
        problem = _find_problem_of_term(term)
        if problem is not None:
            return problem
        at, more = term.end(), term["end"] == ","
    return None


def _find_problem_of_term(term: re.Match[str]) -> str | None:
    names = ("absent", "set", "compared", "equal", "present")
    key = next(term[name] for name in names if term[name] is not None)
    values = (term["values"] or term["value"] or "").split(",")
    for value in values:
        problem = _find_problem_of_pair(key, value.strip())
        if problem is not None:
            return problem
    if term["number"] is not None and not re.fullmatch(r"[+-]?[0-9]+", term["number"]):
        return f"{term['number']!r} is no whole number"
    return None


def _find_problem_of_pair(key: str, value: str) -> str | None:
    found = _KEY.fullmatch(key)
    if found is None or len(found["prefix"] or "") > 253:
        return f"{key!r} is no name of a label"
    return None if _VALUE.fullmatch(value) else f"{value!r} is no value of a label"


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


def format_label_selector(selector: dict[str, Any] | None) -> str | None:
    """Return a `LabelSelector` as text; None for one that is missing or selects everything.

    Source: apimachinery/pkg/apis/meta/v1/helpers.go, LabelSelectorAsSelector.
    """
    terms = [f"{key}={value}" for key, value in ((selector or {}).get("matchLabels") or {}).items()]
    for expression in (selector or {}).get("matchExpressions") or ():
        key, operator = expression.get("key"), expression.get("operator")
        values = ",".join(expression.get("values") or ())
        match operator:
            case "In":
                terms.append(f"{key} in ({values})")
            case "NotIn":
                terms.append(f"{key} notin ({values})")
            case "Exists":
                terms.append(f"{key}")
            case "DoesNotExist":
                terms.append(f"!{key}")
    return ",".join(sorted(terms)) or None
