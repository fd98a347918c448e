"""Names and calls in the prose of the pages are those of the package."""

from __future__ import annotations

import ast
import inspect
import re
from typing import Any

import pytest

import pytest_kwait
from pytest_kwait import Kwait, cache, leaderelection, wait
from pytest_kwait.framework.registry import WAITS
from pytest_kwait.suite.config.options import OPTIONS
from tests.rows import check_rows
from tests.test_links import ROOT, read_prose
from tools.documentation import PAGES

GUIDES = ["docs/which-wait.md", "docs/port-go.md", "docs/move.md"]
"""Pages whose tables are calls."""

ATTRIBUTES = {"client", "cluster", "informers", "namespace"}
FLAGS = {flag for each in OPTIONS for flag in each.flags}
MODULES = {"wait": wait, "cache": cache, "leaderelection": leaderelection}
ELSEWHERE = {"wait_for_events", *wait.__all__, *cache.__all__}
"""A method of informers, and functions of the ported packages."""


def read_code(page: str) -> list[str]:
    """Return what a page marks as code in its prose."""
    return re.findall(r"`([^`]+)`", read_prose(ROOT / page))


def test_waits_in_prose_exist() -> None:
    check_rows(PAGES, _check_waits)


def _check_waits(page: str) -> None:
    named = {
        name
        for code in read_code(page)
        for name in re.findall(r"(?<![\w.])wait_for_\w+", code)
        if not name.endswith("_")
    }

    assert named - WAITS.keys() - set(pytest_kwait.__all__) - ELSEWHERE == set()


def test_options_in_prose_exist() -> None:
    check_rows(PAGES, _check_options)


def _check_options(page: str) -> None:
    named = {name for code in read_code(page) for name in re.findall(r"--kwait(?:-[a-z]+)+", code)}

    assert named - FLAGS == set()


@pytest.mark.parametrize("page", GUIDES)
def test_methods_and_functions_in_tables_exist(page: str) -> None:
    for code in read_code(page):
        found = re.match(r"(kwait|wait|cache|leaderelection)\.([a-z]\w*|Backoff)(?![\w.])", code)
        if found is None:
            continue
        if found[1] == "kwait":
            assert hasattr(Kwait, found[2]) or found[2] in ATTRIBUTES, code
        else:
            assert hasattr(MODULES[found[1]], found[2]), code


@pytest.mark.parametrize("page", GUIDES)
def test_calls_in_tables_are_valid(page: str) -> None:
    """As far as arguments can be checked without a request."""
    checked = 0
    for code in read_code(page):
        call = _parse_call(code)
        if call is not None:
            eval(compile(call, page, "eval"), dict(_names()))
            checked += 1

    assert checked >= 10


def _parse_call(code: str) -> ast.Expression | None:
    """Return a call of a wait or of a method of `kwait`; None if it is none, or leaves out much."""
    if "…" in code:
        return None
    try:
        call = ast.parse(code, mode="eval")
    except SyntaxError:
        return None
    if not isinstance(call.body, ast.Call):
        return None
    function = ast.unparse(call.body.func)
    known = function in WAITS or re.fullmatch(r"kwait\.\w+", function)
    return call if known else None


def _names() -> dict[str, Any]:
    public = {name: getattr(pytest_kwait, name) for name in pytest_kwait.__all__}
    return public | {name: each.check for name, each in WAITS.items()} | {"kwait": _Signatures()}


class _Signatures:
    """A `Kwait` whose methods check their arguments, and do nothing."""

    def __getattr__(self, name: str) -> Any:
        signature = inspect.signature(getattr(Kwait, name))
        return lambda *args, **kwargs: signature.bind(self, *args, **kwargs)
