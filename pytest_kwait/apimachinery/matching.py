"""Matching of an object against a part of it: an assertion tree, and the differences.

A mapping matches if each of its fields does, others may be there. A list matches by the keys of its
items where they have one, else item by item. Texts and names of fields in parentheses are JMESPath
expressions.

Source: kyverno-json pkg/engine/assert, whose trees chainsaw's assertions are.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

NOT_THERE = "(not there)"
"""The text for a field that an object does not have."""

MAX_DEPTH = 100
"""Maximum depth of an assertion tree."""

LIST_KEYS = (
    "name", "type", "mountPath", "devicePath", "containerPort", "port", "ip", "topologyKey", "uid",
)  # fmt: skip
"""The fields by which Kubernetes merges lists of objects, the likeliest first.

Source: `patchMergeKey` in k8s.io/api.
"""

_MISSING: Any = object()

_EACH = "~."
_PLAIN_NAME = re.compile(r"[\w-]+")


@dataclass(frozen=True, slots=True)
class Difference:
    """A field that is not as awaited.

    Args:
        path: the field, for example `spec.containers[app].image`.
        awaited: its awaited value as JSON, or an expression.
        seen: its value as JSON, or a remark in parentheses.
    """

    path: str
    awaited: str
    seen: str

    def __str__(self) -> str:
        return f"{self.path or 'it'} is {self.seen}, awaited {self.awaited}"


class Expression(Protocol):
    """A compiled JMESPath expression."""

    def search(self, value: Any) -> Any:
        """Return the result on a JSON value."""
        ...


def compare(awaited: Any, seen: Any) -> list[Difference]:
    """Return the differences of a JSON value from an assertion tree; empty if it matches.

    Args:
        awaited: the tree, of which `check_tree` was called.
        seen: the value.
    """
    return list(_compare("", awaited, seen))


def check_tree(tree: Any) -> None:
    """Check the depth and the expressions of an assertion tree.

    Raises:
        ValueError: it nests too deeply, or has an invalid expression; the text says where.
    """
    _check("", tree, 0)


def _check(path: str, tree: Any, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise ValueError(f"it nests more than {MAX_DEPTH} levels deep")
    if isinstance(tree, dict):
        for key, value in tree.items():
            where = _field(path, key)
            each, name = _split_each(key)
            if (text := _expression_text(name)) is not None:
                _check_expression(text, where)
            elif each and not name:
                raise ValueError(f"{where}: name a field after '~.', or an expression")
            _check(where, value, depth + 1)
    elif isinstance(tree, list):
        for number, item in enumerate(tree):
            _check(f"{path}[{number}]", item, depth + 1)
    elif isinstance(tree, str) and (text := _expression_text(tree)) is not None:
        _check_expression(text, path)


def _check_expression(text: str, where: str) -> None:
    from jmespath.exceptions import JMESPathError, UnknownFunctionError

    try:
        expression = _compiled(text)
    except (JMESPathError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"{where}: {text!r} is no JMESPath expression: {reason}") from None
    try:
        # Names of functions are looked up by a search alone.
        expression.search({})
    except UnknownFunctionError as error:
        raise ValueError(f"{where}: {text!r} is no JMESPath expression: {error}") from None
    except JMESPathError:
        pass


@cache
def _compiled(text: str) -> Expression:
    # Imported on first use: most trees have no expression.
    import jmespath

    compiled: Expression = jmespath.compile(text)
    return compiled


def _expression_text(text: str) -> str | None:
    """Return the expression of a text in parentheses; None for another text."""
    stripped = text.strip()
    return stripped[1:-1] if stripped.startswith("(") and stripped.endswith(")") else None


def _split_each(key: str) -> tuple[bool, str]:
    """Return whether a field stands for each item of what it names, and the name."""
    return (True, key[len(_EACH) :]) if key.startswith(_EACH) else (False, key)


def _compare(path: str, awaited: Any, seen: Any) -> Iterator[Difference]:
    if isinstance(awaited, dict):
        yield from _compare_mapping(path, awaited, seen)
    elif isinstance(awaited, list):
        yield from _compare_list(path, awaited, seen)
    elif awaited is None:
        if seen is not None and seen is not _MISSING:
            yield Difference(path, NOT_THERE, _show(seen))
    elif isinstance(awaited, str) and (text := _expression_text(awaited)) is not None:
        yield from _evaluate(path, text, awaited, seen)
    else:
        if isinstance(awaited, str):
            awaited = _unescape(awaited)
        if not _is_equal(awaited, seen):
            yield Difference(path, _show(awaited), _show(seen))


def _compare_mapping(path: str, awaited: Mapping[str, Any], seen: Any) -> Iterator[Difference]:
    if not isinstance(seen, dict):
        # What is not there has none of the fields that must not be there.
        absent = seen is None or seen is _MISSING
        if not absent or next(_compare_mapping(path, awaited, {}), None):
            yield Difference(path, _show(awaited), _show(seen))
        return
    for key, value in awaited.items():
        each, name = _split_each(key)
        where = _field(path, key)
        if (text := _expression_text(name)) is None:
            found = seen.get(_unescape(name), _MISSING)
        else:
            found, problem = _search(text, seen)
            if problem:
                yield Difference(where, _show(value), problem)
                continue
        if each:
            yield from _compare_each(where, value, found)
        else:
            yield from _compare(where, value, found)


def _compare_each(path: str, awaited: Any, seen: Any) -> Iterator[Difference]:
    """Compare each item of a list, or each value of an object, of which one at least is needed."""
    items: Sequence[tuple[Any, Any]] = []
    if isinstance(seen, list):
        items = list(enumerate(seen))
    elif isinstance(seen, dict):
        items = list(seen.items())
    if not items:
        yield Difference(path, _show(awaited), _show(seen))
    for place, item in items:
        yield from _compare(f"{path}[{place}]", awaited, item)


def _compare_list(path: str, awaited: Sequence[Any], seen: Any) -> Iterator[Difference]:
    if not isinstance(seen, list):
        yield Difference(path, _show(awaited), _show(seen))
        return
    key = _find_key(awaited, seen)
    if key is not None:
        present = {_show(item[key]): item for item in seen}
        for item in awaited:
            where = f"{path}[{item[key]}]"
            found = present.get(_show(item[key]), _MISSING)
            if found is _MISSING:
                yield Difference(where, _show(item), NOT_THERE)
            else:
                yield from _compare(where, item, found)
        return
    if len(awaited) != len(seen):
        yield Difference(
            path, f"{_count(awaited)}: {_show(awaited)}", f"{_count(seen)}: {_show(seen)}"
        )
        return
    for place, (item, found) in enumerate(zip(awaited, seen, strict=True)):
        yield from _compare(f"{path}[{place}]", item, found)


def _find_key(awaited: Sequence[Any], seen: Sequence[Any]) -> str | None:
    """Return the field that tells the items of both lists apart; None without one."""
    if not awaited or not all(isinstance(item, dict) for item in (*awaited, *seen)):
        return None
    for key in LIST_KEYS:
        if all(_is_key(item.get(key)) for item in (*awaited, *seen)) and all(
            max(Counter(_show(item[key]) for item in items).values(), default=1) == 1
            for items in (awaited, seen)
        ):
            return key
    return None


def _is_key(value: Any) -> bool:
    if isinstance(value, str):
        return _expression_text(value) is None
    return isinstance(value, int) and not isinstance(value, bool)


def _evaluate(path: str, text: str, awaited: str, seen: Any) -> Iterator[Difference]:
    """Compare a value with the expression that it must make true."""
    if seen is _MISSING:
        yield Difference(path, awaited, NOT_THERE)
        return
    result, problem = _search(text, seen)
    if problem or result is not True:
        yield Difference(path, awaited, problem or _show(seen))


def _search(text: str, value: Any) -> tuple[Any, str]:
    """Return the result of an expression, or why there is none."""
    from jmespath.exceptions import JMESPathError

    try:
        return _compiled(text).search(value), ""
    except JMESPathError as error:
        return None, f"(not evaluated: {str(error).partition(chr(10))[0]})"


def _is_equal(awaited: Any, seen: Any) -> bool:
    # True is no number here.
    if isinstance(awaited, bool) or isinstance(seen, bool):
        return awaited is seen
    return bool(awaited == seen)


def _unescape(text: str) -> str:
    r"""Return the text that a tree means: `\(a)` is no expression."""
    return text[1:] if text.startswith("\\(") else text


def _field(path: str, key: str) -> str:
    each, name = _split_each(key)
    if not _PLAIN_NAME.fullmatch(name) and _expression_text(name) is None:
        return f"{path}[{name!r}]"
    return f"{path}{'.' if path else ''}{_EACH if each else ''}{name}"


def _count(items: Sequence[Any]) -> str:
    return "1 item" if len(items) == 1 else f"{len(items)} items"


def _show(value: Any) -> str:
    """Return a value as JSON, as the server writes it."""
    return NOT_THERE if value is _MISSING else json.dumps(value, ensure_ascii=False)
