"""Suites that users read use what users have: public modules, and pytest from the outside."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
SUITES = ("e2e", "examples")
PUBLIC = {
    "pytest_kwait",
    "pytest_kwait.cache",
    # The ruff rules of this repository allow no other way to read the time.
    "pytest_kwait.clock",
    "pytest_kwait.clusters",
    "pytest_kwait.leaderelection",
    "pytest_kwait.scheduler",
    "pytest_kwait.testing",
    "pytest_kwait.typing",
    "pytest_kwait.wait",
}
OURS = ("benchmarks", "conformance", "pytest_kwait", "tests", "tools")


def trees() -> Iterator[tuple[str, ast.Module]]:
    for suite in SUITES:
        for path in sorted((ROOT / suite).rglob("*.py")):
            yield str(path.relative_to(ROOT)), ast.parse(path.read_text())


def imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def starts_pytest(node: ast.AST) -> bool:
    """Whether this is `-m pytest` of a command, the fixture `pytester`, or `pytest.main`."""
    if isinstance(node, ast.List | ast.Tuple):
        words = [item.value for item in node.elts if isinstance(item, ast.Constant)]
        return "pytest" in words and "-m" in words
    if isinstance(node, ast.arg):
        return node.arg == "pytester"
    return isinstance(node, ast.Attribute) and ast.unparse(node) == "pytest.main"


def test_they_import_public_modules_alone() -> None:
    internal = [
        f"{file} imports {module}"
        for file, tree in trees()
        for module in imports(tree)
        if module.split(".")[0] in OURS and module not in PUBLIC
    ]
    assert internal == []


def test_they_start_no_runs_of_pytest() -> None:
    """Whole runs are in `conformance/runs`."""
    starting = [
        f"{file}:{node.lineno}"
        for file, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.expr | ast.arg) and starts_pytest(node)
    ]
    assert starting == []
