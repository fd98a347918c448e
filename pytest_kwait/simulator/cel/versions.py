"""Semantic versions.

Source: k8s.io/apiserver pkg/cel/library/semverlib.go.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FUNCTIONS"]

_NUMBER = r"(0|[1-9]\d*)"
_FORM = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-([0-9A-Za-z.-]+))?(?:\+([0-9A-Za-z.-]+))?")
_LOOSE = re.compile(r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?((?:[-+].*)?)", re.S)


def _semver(text: str, loose: bool = False) -> dict[str, Any]:
    if loose and (found := _LOOSE.fullmatch(text)):
        text = ".".join(str(int(part or 0)) for part in found.groups()[:3]) + found[4]
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"Semver parse error during conversion from string: {text!r}")
    before = match[4].split(".") if match[4] else []
    if any(not part or (part.isdigit() and part != "0" and part[0] == "0") for part in before):
        raise ValueError(f"Semver parse error during conversion from string: {text!r}")
    numbers = [int(match[index]) for index in (1, 2, 3)]
    return {"@type": "Semver", "numbers": numbers, "before": before}


def _is_semver(text: str, loose: bool = False) -> bool:
    try:
        _semver(text, loose)
    except ValueError:
        return False
    return True


def _key(version: dict[str, Any]) -> tuple[Any, ...]:
    parts = [(0, int(one), "") if one.isdigit() else (1, 0, one) for one in version["before"]]
    return (*version["numbers"], not parts, parts)


def _compare(left: dict[str, Any], right: dict[str, Any]) -> int:
    return (_key(left) > _key(right)) - (_key(left) < _key(right))


def _of(run: Callable[..., Any]) -> Callable[..., Any]:
    def call(*values: Any) -> Any:
        return run(*values)

    call.of = "Semver"  # type: ignore[attr-defined]
    return call


FUNCTIONS: dict[tuple[str, tuple[str, ...], str], Callable[..., Any]] = {
    ("semver", ("string",), "Semver"): _semver,
    ("semver", ("string", "bool"), "Semver"): _semver,
    ("isSemver", ("string",), "bool"): _is_semver,
    ("isSemver", ("string", "bool"), "bool"): _is_semver,
    (".major", ("Semver",), "int"): lambda version: version["numbers"][0],
    (".minor", ("Semver",), "int"): lambda version: version["numbers"][1],
    (".patch", ("Semver",), "int"): lambda version: version["numbers"][2],
    (".isLessThan", ("Semver", "Semver"), "bool"): _of(lambda one, two: _compare(one, two) < 0),
    (".isGreaterThan", ("Semver", "Semver"), "bool"): _of(lambda one, two: _compare(one, two) > 0),
    (".compareTo", ("Semver", "Semver"), "int"): _of(_compare),
}
"""By name, types taken and type given."""
