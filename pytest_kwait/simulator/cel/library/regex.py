"""Regular expressions: `find` and `findAll`.

Source: k8s.io/apiserver pkg/cel/library/regex.go.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from cel_expr_python import cel

if TYPE_CHECKING:
    from pytest_kwait.simulator.cel.library.overloads import Overloads


_GROUP = re.compile(r"\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]|\((?:\?P?<\w+>|(?!\?))", re.S)


@lru_cache(maxsize=1)
def _compile_search() -> cel.Expression:
    """Return RE2's search through CEL functions, which capture at most one group."""
    config = cel.NewEnvConfigFromYaml("extensions:\n- name: optional\n- name: regex\n")
    variables = {"text": cel.Type.STRING, "pattern": cel.Type.STRING}
    return cel.NewEnv(config=config, variables=variables).compile("regex.extractAll(text, pattern)")


def _find_all(text: str, pattern: str, most: int = -1) -> list[str]:
    plain = _GROUP.sub(lambda match: "(?:" if match[0].startswith("(") else match[0], pattern)
    result = _compile_search().eval(data={"text": text, "pattern": plain})
    if result.type() == cel.Type.ERROR:
        raise ValueError(f"Illegal regex: {result.value()}")
    values: list[str] = result.plain_value()  # type: ignore[assignment]
    return values if most < 0 else values[:most]


def _find(text: str, pattern: str) -> str:
    matches = _find_all(text, pattern, 1)
    return matches[0] if matches else ""


REGEX_FUNCTIONS: Overloads = {
    (".find", ("string", "string"), "string"): _find,
    (".findAll", ("string", "string"), "list<string>"): _find_all,
    (".findAll", ("string", "string", "int"), "list<string>"): _find_all,
}
