"""Patterns as Go's regexp package has them, by the RE2 that the CEL library brings.

Go's syntax is RE2's, and RE2 needs time in proportion to the text: no pattern can keep the server
busy. The library is loaded with the first pattern. Where it is not installed Python's own patterns
stand in, which mean the same but for what only one of the two knows.

Source: Go's regexp/syntax/parse.go (the texts of what is wrong).
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cel_expr_python.cel import Expression

__all__ = ["find_pattern_error", "matches_pattern"]

_RE2_PREFIX = "INVALID_ARGUMENT: invalid regular expression: "
_GO_MESSAGES = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "trailing \\": "trailing backslash at end of expression",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid named capture group": "invalid named capture",
}
"""What RE2 says, and what Go says to the same."""


@lru_cache(maxsize=1)
def _compile() -> Expression:
    from cel_expr_python import cel

    variables = {"text": cel.Type.STRING, "pattern": cel.Type.STRING}
    return cel.NewEnv(variables=variables).compile("text.matches(pattern)")


@lru_cache(maxsize=1)
def _has_re2() -> bool:
    return find_spec("cel_expr_python") is not None


@lru_cache(maxsize=512)
def find_pattern_error(pattern: str) -> str:
    """Why `pattern` is none, as Go says it; empty if it is one."""
    if not _has_re2():
        return _find_python_error(pattern)
    said = _compile().eval(data={"text": "", "pattern": pattern}).value()
    if isinstance(said, bool):
        return ""
    fault, _, part = str(said).removeprefix(_RE2_PREFIX).partition(": ")
    text = f"error parsing regexp: {_GO_MESSAGES.get(fault, fault)}"
    # Go names the whole pattern where a bracket too many or too few is met.
    part = pattern if fault in ("missing )", "unexpected )") else part
    return f"{text}: `{part}`" if part else f"{text}: ``"


def matches_pattern(pattern: str, text: str) -> bool:
    """Whether `pattern` is found in `text`; one that is none is found nowhere."""
    if not _has_re2():
        return not find_pattern_error(pattern) and re.search(pattern, text, re.ASCII) is not None
    return _compile().eval(data={"text": text, "pattern": pattern}).value() is True


def _find_python_error(pattern: str) -> str:
    try:
        re.compile(pattern, re.ASCII)
    except re.error as error:
        return f"error parsing regexp: {error.msg}: `{pattern}`"
    return ""
