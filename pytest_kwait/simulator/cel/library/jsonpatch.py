"""Escaped keys of JSON patches.

Source: k8s.io/apiserver pkg/cel/library/jsonpatch.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kwait.simulator.cel.library.overloads import Overloads


ESCAPE_KEY = "jsonpatch_escapeKey"
"""The declared name of `jsonpatch.escapeKey`; with a dot, CEL would look up a member function."""


def _escape_key(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


JSON_PATCH_FUNCTIONS: Overloads = {
    (ESCAPE_KEY, ("string",), "string"): _escape_key,
}
