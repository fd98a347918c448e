"""Semantic versions.

The package `semver` could replace the comparison of versions only: it has one error for every
invalid version, where Go names the part, no limit of 64 bits, and no loose form.

Source: k8s.io/apiserver pkg/cel/library/semverlib.go.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.go_values import quote_go
from pytest_kwait.simulator.cel.values import OpaqueValue, is_valid_for
from pytest_kwait.simulator.codec.go_text import parse_uint

if TYPE_CHECKING:
    from pytest_kwait.simulator.cel.library.overloads import Overloads

_IDENTIFIER_CHARACTERS = re.compile(r"[0-9A-Za-z-]*", re.ASCII)
_LOOSE_VERSION = re.compile(r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?((?:[-+].*)?)", re.S)

_MAX_DIGITS = 18
"""Digits of a parsed number; longer texts are invalid."""


def _parse_semver(text: str, loose: bool = False) -> OpaqueValue:
    if loose and (match := _LOOSE_VERSION.fullmatch(text)):
        plain = ((part or "0").lstrip("0") or "0" for part in match.groups()[:3])
        text = ".".join(plain) + match[4]
    parts = text.split(".", 2)
    if len(parts) < 3:
        raise ValueError("No Major.Minor.Patch elements found" if text else "Version string empty")
    rest, plus, build = parts[2].partition("+")
    patch, dash, before = rest.partition("-")
    numbers = []
    for name, part in (("Major", parts[0]), ("Minor", parts[1]), ("Patch", patch)):
        if not re.fullmatch("[0-9]*", part):
            quoted_part = quote_go(part)
            raise ValueError(f"Invalid character(s) found in {name.lower()} number {quoted_part}")
        if len(part) > 1 and part.startswith("0"):
            raise ValueError(f'{name} number must not contain leading zeroes "{part}"')
        numbers.append(parse_uint(part))
    early = before.split(".") if dash else []
    for part in early:
        _check_part(part, "Prerelease", "prerelease")
        if part.isdigit() and len(part) > 1 and part.startswith("0"):
            why = "Numeric PreRelease version must not contain leading zeroes"
            raise ValueError(f'{why} "{part}"')
        if part.isdigit():
            parse_uint(part)
    for part in build.split(".") if plus else ():
        _check_part(part, "Build meta data", "build meta data")
    return OpaqueValue("Semver", numbers=numbers, before=early)


def _check_part(part: str, name: str, inside: str) -> None:
    if not part:
        raise ValueError(f"{name} is empty")
    if not _IDENTIFIER_CHARACTERS.fullmatch(part):
        quoted_part = quote_go(part)
        raise ValueError(f"Invalid character(s) found in {inside} {quoted_part}")


def _make_sort_key(version: dict[str, Any]) -> tuple[Any, ...]:
    parts = [
        (0, int(identifier), "") if identifier.isdigit() else (1, 0, identifier)
        for identifier in version["before"]
    ]
    return (*version["numbers"], not parts, parts)


def _compare_versions(left: dict[str, Any], right: dict[str, Any]) -> int:
    return (_make_sort_key(left) > _make_sort_key(right)) - (
        _make_sort_key(left) < _make_sort_key(right)
    )


SEMVER_FUNCTIONS: Overloads = {
    ("semver", ("string",), "Semver"): _parse_semver,
    ("semver", ("string", "bool"), "Semver"): _parse_semver,
    ("isSemver", ("string",), "bool"): is_valid_for(_parse_semver),
    ("isSemver", ("string", "bool"), "bool"): is_valid_for(_parse_semver),
    (".major", ("Semver",), "int"): lambda version: version["numbers"][0],
    (".minor", ("Semver",), "int"): lambda version: version["numbers"][1],
    (".patch", ("Semver",), "int"): lambda version: version["numbers"][2],
    (".isLessThan", ("Semver", "Semver"), "bool"): lambda left, right: (
        _compare_versions(left, right) < 0
    ),
    (".isGreaterThan", ("Semver", "Semver"), "bool"): lambda left, right: (
        _compare_versions(left, right) > 0
    ),
    (".compareTo", ("Semver", "Semver"), "int"): _compare_versions,
}
