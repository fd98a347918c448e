"""`matches`: a part of an object, as a condition of waits and as an assertion."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.predicates import ObjectMatch
from pytest_kwait.suite.manifests import InvalidManifest, is_path, read_values

if TYPE_CHECKING:
    from collections.abc import Mapping

_MAX_PLACE = 60
"""Characters of a mapping in the goal of a wait."""


def matches(expected: str | Path | Mapping[str, Any]) -> ObjectMatch:
    r"""Return the condition that an object has the given fields, with the given values.

    It is a condition for `wait_for`, and equals each object that matches:
    `assert kwait.get("deployment/web") == matches({"spec": {"replicas": 3}})`. A failure shows the
    awaited and the seen value of each field that differs.

    - Fields that are not given may be there. A field given as null must not be.
    - Lists of objects that all have a `name`, `type` or another field by which Kubernetes merges
      them match by that field, others item by item and in length.
    - A text in parentheses is a JMESPath expression that must be true for the value, `@`; a field
      in parentheses is one whose result is compared. `~.` in front of a field or expression stands
      for each of its items, at least one. `\(` begins a text that is no expression.

    Args:
        expected: the fields; or YAML text or a YAML file with one object of them. A relative path
            is searched beside the calling module, then in the current directory.

    Raises:
        InvalidArgument: there is no field, or an invalid expression.
        InvalidManifest: the file is missing, or its text does not parse.
    """
    caller = sys._getframe(1).f_globals.get("__file__")
    folders = [*([Path(caller).parent] if caller else []), Path.cwd()]
    values = read_values(expected, folders)
    if len(values) != 1:
        place = str(expected) if is_path(expected) else "the text"
        problem = f"has {len(values)} documents, one with the fields is needed"
        raise InvalidManifest(place, problem)
    ((tree, place),) = values
    if not isinstance(tree, dict) or not tree:
        raise InvalidArgument("matches", tree, f"{place}: give an object with at least one field")
    return ObjectMatch(tree, _describe(expected, tree))


def _describe(expected: object, tree: dict[str, Any]) -> str:
    """Return the name of a file, else the beginning of the fields."""
    if is_path(expected):
        return Path(str(expected)).name
    text = json.dumps(tree, ensure_ascii=False)
    return text if len(text) <= _MAX_PLACE else f"{text[: _MAX_PLACE - 3]}..."
