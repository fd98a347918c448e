"""The flag `--version`: the program's version, all facts of it, or another one to report.

Source: k8s.io/component-base version/verflag/verflag.go, version/dynamic.go;
k8s.io/apimachinery pkg/util/version/version.go ParseSemantic.
"""

from __future__ import annotations

import platform
import re
import sys
from importlib import metadata
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.go_values import parse_bool, quote_go

if TYPE_CHECKING:
    from collections.abc import Sequence

RAW = "raw"
EMULATED = ("1", "36")
"""The version of Kubernetes that the program behaves as."""

_NUMBERS = re.compile(r"v?([0-9]+(?:\.[0-9]+)*)(.*)", re.DOTALL)
_IDENTIFIERS = r"[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*"
_EXTRA = re.compile(rf"(-{_IDENTIFIERS})?(\+{_IDENTIFIERS})?")
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def parse_version_flag(text: str) -> str:
    """Return `raw`, `true`, `false`, or a version to report, which begins with `v`.

    Raises:
        ValueError: it is none of them, or the version of another release.
    """
    if text == RAW:
        return text
    if not text.startswith("v"):
        return "true" if parse_bool(text) else "false"
    own = _own_version()
    if _release(text) != _release(own):
        raise ValueError(
            f"version {quote_go(text)} must match major/minor/patch of default version "
            f"{quote_go(own)}"
        )
    return text


def reported_version(values: Sequence[str]) -> str:
    """Return the version to report, without `v`: the last given one, or the program's own.

    Args:
        values: all values of the flag, in their order.
    """
    given = [value for value in values if value.startswith("v")]
    return given[-1].removeprefix("v") if given else metadata.version("pytest-kwait")


def shown_version(values: Sequence[str]) -> str:
    """Return the flag's value, which is its last one; `false` without one."""
    return values[-1] if values else "false"


def format_version(values: Sequence[str], program: str) -> str:
    """Return what the flag shows, as a line; empty if the program is to run.

    Args:
        values: all values of the flag, in their order.
        program: the program's name.
    """
    shown = shown_version(values)
    if shown == "true":
        return f"{program} {reported_version(values)}\n"
    return f"{_format_info(reported_version(values))}\n" if shown == RAW else ""


def _format_info(version: str) -> str:
    """Return the facts of the program as Go prints a `version.Info`; it has no commit or date."""
    major, minor, _ = _release(_own_version())
    machine = platform.machine()
    facts = {
        "Major": str(major),
        "Minor": str(minor),
        "EmulationMajor": EMULATED[0],
        "EmulationMinor": EMULATED[1],
        "MinCompatibilityMajor": EMULATED[0],
        "MinCompatibilityMinor": EMULATED[1],
        "GitVersion": f"v{version}",
        "GitCommit": "",
        "GitTreeState": "",
        "BuildDate": "1970-01-01T00:00:00Z",
        "GoVersion": "",
        "Compiler": f"{sys.implementation.name} {platform.python_version()}",
        "Platform": f"{sys.platform}/{_ARCHITECTURES.get(machine, machine)}",
    }
    return f"version.Info{{{', '.join(f'{key}:{quote_go(fact)}' for key, fact in facts.items())}}}"


def _own_version() -> str:
    # Of a development or release candidate, as `0.1.0rc1`, Python's form is not semantic.
    numbers = re.match(r"\d+(\.\d+)*", metadata.version("pytest-kwait"))
    return f"v{numbers.group() if numbers else '0.0.0'}"


def _release(text: str) -> tuple[int, int, int]:
    """Return major, minor and patch of a semantic version.

    Raises:
        ValueError: it is none; in the words of Kubernetes.
    """
    parts = _NUMBERS.fullmatch(text)
    if parts is None:
        raise ValueError(f"could not parse {quote_go(text)} as version")
    numbers, extra = parts[1].split("."), parts[2]
    if len(numbers) != 3:
        raise ValueError(f"illegal version string {quote_go(text)}")
    for number in numbers:
        if len(number) > 1 and number.startswith("0"):
            raise ValueError(
                f"illegal zero-prefixed version component {quote_go(number)} in {quote_go(text)}"
            )
    if not _EXTRA.fullmatch(extra):
        raise ValueError(
            f"could not parse pre-release/metadata ({extra}) in version {quote_go(text)}"
        )
    major, minor, patch = map(int, numbers)
    return major, minor, patch
