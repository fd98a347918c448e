"""Label and field selectors: parse and match.

Labels: the query parameter's grammar and the object form. Fields: the grammar and the fields that
each kind can be selected by.
Source: k8s.io/apimachinery pkg/labels/selector.go, pkg/fields/selector.go,
pkg/apis/meta/v1/helpers.go; the label conversions of each kind in k8s.io/kubernetes pkg/apis.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_kwait.apimachinery.validation import label_key_texts, label_value_texts
from pytest_kwait.simulator.api_errors import bad_request
from pytest_kwait.simulator.codec.go_text import parse_int

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.scheme import Kind

__all__ = [
    "FieldSelector",
    "LabelSelector",
    "format_selector",
    "matches_selector",
    "parse_fields",
    "parse_labels",
]

_OPERATORS = ("=", "!=", "in", "==", "notin", ">", "<")
_EXPECTED_OPERATORS = "in, notin, =, ==, !=, gt, lt"
_SPECIAL = "=!(),><"
_WORDS = ("in", "notin")
_END = ""


@dataclass(frozen=True, slots=True)
class _Requirement:
    key: str
    operator: str
    values: tuple[str, ...]

    def holds(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "exists":
                return value is not None
            case "!":
                return value is None
            case "=" | "==" | "in":
                return value is not None and value in self.values
            case "!=" | "notin":
                return value is None or value not in self.values
            case _:
                number, bound = _parse_integer(value or ""), _parse_integer(self.values[0])
                if number is None or bound is None:
                    return False
                return number > bound if self.operator == ">" else number < bound


class LabelSelector:
    """A parsed selector; an empty one matches everything.

    Args:
        requirements: what must hold, all of it.
    """

    __slots__ = ("_requirements",)

    def __init__(self, requirements: list[_Requirement]) -> None:
        self._requirements = requirements

    def __bool__(self) -> bool:
        return bool(self._requirements)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        return all(requirement.holds(labels) for requirement in self._requirements)


def parse_labels(text: str) -> LabelSelector:
    """The selector that `text` spells.

    Raises:
        StatusError: 400 with the server's own text where `text` spells none.
    """
    try:
        return LabelSelector(_Parser(text).parse())
    except _SyntaxError as error:
        raise bad_request(str(error)) from None


def matches_selector(selector: Obj | None, labels: Mapping[str, str]) -> bool:
    """Whether a selector object (`matchLabels`, `matchExpressions`) matches; None never does."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels")
    if wanted and not wanted.items() <= labels.items():
        return False
    if not selector.get("matchExpressions"):
        return True
    names = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
    return all(
        _Requirement(
            expression["key"],
            names.get(expression["operator"], ""),
            tuple(expression.get("values") or ()),
        ).holds(labels)
        for expression in selector.get("matchExpressions", ())
    )


def format_selector(selector: Obj) -> str:
    """A selector object in the query parameter's grammar."""
    terms = [(key, f"{key}={value}") for key, value in selector.get("matchLabels", {}).items()]
    for expression in selector.get("matchExpressions", ()):
        key, operator = expression["key"], expression["operator"]
        values = ",".join(sorted(expression.get("values") or ()))
        form = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }
        terms.append((key, form.get(operator, key)))
    return ",".join(term for _, term in sorted(terms, key=lambda pair: pair[0]))


class _SyntaxError(Exception):
    pass


def _tokenize(text: str) -> list[str]:
    words: list[str] = []
    at = 0
    while at < len(text):
        sign = text[at]
        if sign in " \t\r\n":
            at += 1
        elif sign in _SPECIAL:
            pair = text[at : at + 2]
            word = pair if pair in ("==", "!=") else sign
            words.append(word)
            at += len(word)
        else:
            end = at
            while end < len(text) and text[end] not in _SPECIAL + " \t\r\n":
                end += 1
            words.append(text[at:end])
            at = end
    return [*words, _END]


class _Parser:
    """Recursive descent over the words of one selector."""

    def __init__(self, text: str) -> None:
        self._words = _tokenize(text)
        self._at = 0

    def _look(self) -> str:
        return self._words[min(self._at, len(self._words) - 1)]

    def _take(self) -> str:
        word = self._look()
        self._at += 1
        return word

    def parse(self) -> list[_Requirement]:
        found: list[_Requirement] = []
        while True:
            word = self._look()
            if word == _END:
                return found
            if not _is_identifier(word) and word != "!":
                raise _SyntaxError(f"found '{word}', expected: !, identifier, or 'end of string'")
            try:
                found.append(self._requirement())
            except _SyntaxError as error:
                raise _SyntaxError(f"unable to parse requirement: {error}") from None
            separator = self._take()
            if separator == _END:
                return found
            if separator != ",":
                raise _SyntaxError(f"found '{separator}', expected: ',' or 'end of string'")
            after = self._look()
            if not _is_identifier(after) and after != "!":
                raise _SyntaxError(f"found '{after}', expected: identifier after ','")

    def _requirement(self) -> _Requirement:
        key = self._take()
        absent = key == "!"
        if absent:
            key = self._take()
        if not _is_identifier(key):
            raise _SyntaxError(f"found '{key}', expected: identifier")
        texts = label_key_texts(key)
        if texts:
            told = "; ".join(texts).replace("a qualified name must", "a valid label key must", 1)
            raise _SyntaxError(f'<nil>: Invalid value: "{key}": {told}')
        if absent:
            return _Requirement(key, "!", ())
        if self._look() in (_END, ","):
            return _Requirement(key, "exists", ())
        operator = self._take()
        if operator not in _OPERATORS:
            raise _SyntaxError(f"found '{operator}', expected: {_EXPECTED_OPERATORS}")
        values = self._values() if operator in _WORDS else self._exact()
        errors = []
        if operator in ("<", ">") and _parse_integer(values[0]) is None:
            errors.append(
                f"values[0]: Invalid value: \"{values[0]}\": for 'Gt', 'Lt' operators, the value "
                "must be an integer"
            )
        for index, value in enumerate(values):
            texts = label_value_texts(value)
            if texts:
                shown = json.dumps(value, ensure_ascii=False)
                errors.append(f"values[{index}][{key}]: Invalid value: {shown}: {'; '.join(texts)}")
        if errors:
            joined = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
            raise _SyntaxError(joined)
        return _Requirement(key, operator, tuple(values))

    def _exact(self) -> list[str]:
        if self._look() in (_END, ","):
            return [""]
        value = self._take()
        if not _is_identifier(value):
            raise _SyntaxError(f"found '{value}', expected: identifier")
        return [value]

    def _values(self) -> list[str]:
        opening = self._take()
        if opening != "(":
            raise _SyntaxError(f"found '{opening}' expected: '('")
        first = self._look()
        if first == ")":
            self._take()
            return [""]
        if not _is_identifier(first) and first != ",":
            raise _SyntaxError(f"found '{first}', expected: ',', ')' or identifier")
        values: set[str] = set()
        expects = True
        while True:
            word = self._take()
            if _is_identifier(word):
                values.add(word)
                after = self._look()
                if after not in (",", ")"):
                    raise _SyntaxError(f"found '{after}', expected: ',' or ')'")
                expects = False
            elif word == ",":
                if expects:
                    values.add("")
                expects = True
            elif word == ")":
                if expects:
                    values.add("")
                return sorted(values)
            else:
                raise _SyntaxError(f"found '{word}', expected: ',', or identifier")


def _parse_integer(text: str) -> int | None:
    """The whole number of 64 bits that `text` spells, None if it spells none."""
    try:
        return parse_int(text)
    except ValueError:
        return None


def _is_identifier(word: str) -> bool:
    return bool(word) and word[0] not in _SPECIAL


_ALWAYS = ("metadata.name", "metadata.namespace")
_FIELDS: dict[str, tuple[str, ...]] = {
    "pods": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ),
    "events": (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    "nodes": ("spec.unschedulable",),
    "namespaces": ("status.phase",),
    "secrets": ("type",),
    "services": ("spec.clusterIP", "spec.type"),
    "jobs.batch": ("status.successful",),
    "replicationcontrollers": ("status.replicas",),
    "certificatesigningrequests.certificates.k8s.io": ("spec.signerName",),
    "resourceslices.resource.k8s.io": ("spec.nodeName", "spec.driver"),
}
_NAME_ONLY = frozenset(
    {
        "certificatesigningrequests.certificates.k8s.io",
        "namespaces",
        "nodes",
        "resourceslices.resource.k8s.io",
    }
)
"""Cluster-wide kinds whose objects cannot be selected by the namespace that they do not have."""
_INTEGER_FIELDS = frozenset({"status.successful", "status.replicas"})
_RENAMED = {"status.successful": "status.succeeded"}
_EVENT_NAMES = {"regarding": "involvedObject", "reportingController": "reportingComponent"}
_OLD_EVENT_NAMES = ("involvedObject", "reportingComponent", "source")


class _Term(NamedTuple):
    field: str
    equal: bool
    value: str


class FieldSelector:
    """A parsed selector; an empty one matches everything.

    Args:
        terms: what must hold, all of it.
    """

    __slots__ = ("_terms",)

    def __init__(self, terms: list[_Term]) -> None:
        self._terms = terms

    def __bool__(self) -> bool:
        return bool(self._terms)

    def matches(self, obj: Obj) -> bool:
        """Whether the object is selected."""
        return all(
            (_read_field(obj, term.field) == term.value) is term.equal for term in self._terms
        )

    @property
    def name(self) -> str | None:
        """The one name that can match, None if several can."""
        for term in self._terms:
            if term.field == "metadata.name" and term.equal:
                return term.value
        return None


def parse_fields(text: str, kind: Kind) -> FieldSelector:
    """The selector that `text` spells for objects of `kind`.

    Raises:
        StatusError: 400 with the server's own text: not a selector, or not such a field.
    """
    terms = []
    for part in sorted(_split_terms(text)):
        if not part:
            continue
        found = _parse_term(part)
        if found is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        terms.append(found._replace(field=_check_field(found.field, kind)))
    return FieldSelector(terms)


def _split_terms(text: str) -> list[str]:
    parts, start, escaped = [], 0, False
    for at, sign in enumerate(text):
        if escaped:
            escaped = False
        elif sign == "\\":
            escaped = True
        elif sign == ",":
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]


def _parse_term(part: str) -> _Term | None:
    for at in range(len(part)):
        for operator in ("!=", "==", "="):
            if part.startswith(operator, at):
                value = _unescape(part[at + len(operator) :])
                return _Term(part[:at], operator != "!=", value)
    return None


def _unescape(value: str) -> str:
    out, escaped = [], False
    for sign in value:
        if escaped:
            if sign not in "\\,=":
                raise bad_request(f"invalid field selector: invalid escape sequence: \\{sign}")
            out.append(sign)
            escaped = False
        elif sign == "\\":
            escaped = True
        elif sign in ",=":
            raise bad_request(f"invalid field selector: unescaped character in value: {ord(sign)}")
        else:
            out.append(sign)
    if escaped:
        raise bad_request("invalid field selector: invalid escape sequence: \\")
    return "".join(out)


def _check_field(field: str, kind: Kind) -> str:
    if field in _ALWAYS and not (field == "metadata.namespace" and kind.bucket in _NAME_ONLY):
        return field
    stored = field
    if kind.qualified == "events.events.k8s.io":
        first, dot, rest = field.partition(".")
        if first in _OLD_EVENT_NAMES:
            raise bad_request(f"field label not supported: {field}")
        stored = _EVENT_NAMES.get(first, first) + dot + rest
    if stored in _FIELDS.get(kind.bucket, ()):
        return _RENAMED.get(stored, stored)
    if kind.structure is not None and field in kind.structure.selectable:
        return field
    if kind.bucket == "jobs.batch":
        raise bad_request(f'field label "{field}" not supported for {kind.kind}')
    if kind.bucket == "resourceslices.resource.k8s.io":
        raise bad_request(
            f"field label not supported for {kind.api_version}, Kind={kind.kind}: {field}"
        )
    if kind.custom or kind.bucket in _FIELDS:
        raise bad_request(f"field label not supported: {field}")
    raise bad_request(
        f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"'
    )


def _read_field(obj: Obj, field: str) -> str:
    if field == "source":
        source: str = obj.get("source", {}).get("component") or obj.get("reportingComponent", "")
        return source
    if field == "status.podIPs":
        return ",".join(entry.get("ip", "") for entry in obj.get("status", {}).get("podIPs", ()))
    value: Any = obj
    for name in field.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    if value is None:
        if field in _INTEGER_FIELDS or field in _RENAMED.values():
            return "0"
        return "false" if field in ("spec.unschedulable", "spec.hostNetwork") else ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
