"""Figures of the package's structure: modules, lines, folders, names, single importers, circles.

Run `python -m tools.structure [ROOT]`; ROOT is a checkout, this one by default, so that two commits
are measured by the same rules.
"""

from __future__ import annotations

import ast
import gc
import io
import sys
import tokenize
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PACKAGE = "pytest_kwait"
FOLDER_LIMIT = 25
REPEATED_NAMES = frozenset({"__init__", "wait", "conditions", "fields", "controller", "sync"})
"""File names that may occur in many folders: the same part of different subjects."""

Graph = dict[str, set[str]]


class Module(NamedTuple):
    """A module of the package.

    Args:
        name: dotted, without `.__init__`.
        path: relative to the checkout.
        source: its text.
    """

    name: str
    path: Path
    source: str

    @property
    def folder(self) -> str:
        """The folder it is in, relative to the checkout."""
        return str(self.path.parent)


def read_package(root: Path) -> dict[str, Module]:
    """Return the modules of a checkout by dotted name."""
    found = {}
    for path in sorted((root / PACKAGE).rglob("*.py")):
        relative = path.relative_to(root)
        parts = relative.with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = Module(name, relative, path.read_text())
    return found


def import_graph(modules: Mapping[str, Module]) -> Graph:
    """Return which modules each one imports: at module level, in functions and for types."""
    # Trees are freed as they are left; a collector that looks at them takes most of the time.
    collects = gc.isenabled()
    gc.disable()
    try:
        return {
            name: {target for target in _imported(module, modules) if target != name}
            for name, module in modules.items()
        }
    finally:
        if collects:
            gc.enable()


def _imported(module: Module, modules: Mapping[str, Module]) -> Iterator[str]:
    package = module.name if module.path.stem == "__init__" else module.name.rpartition(".")[0]
    for node in _statements(ast.parse(module.source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")
                base = ".".join([*parents[: len(parents) - node.level + 1], *filter(None, [base])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                if inner in modules:
                    yield inner
                elif base in modules:
                    yield base


def _statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the statements of a module, a tenth of its nodes."""
    todo: list[ast.AST] = [*tree.body]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.stmt):
            yield node
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(node, part, None)
            if isinstance(inner, list):  # not of an expression
                todo += inner


def circles(graph: Graph) -> list[list[str]]:
    """Return the groups of modules that import each other, directly or not (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for target in sorted(graph.get(name, ())):
            if target not in index:
                visit(target)
                low[name] = min(low[name], low[target])
            elif target in stack:
                low[name] = min(low[name], index[target])
        if low[name] == index[name]:
            at = stack.index(name)
            group = stack[at:]
            del stack[at:]
            if len(group) > 1:
                found.append(sorted(group))

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)
    try:
        for name in sorted(graph):
            if name not in index:
                visit(name)
    finally:
        sys.setrecursionlimit(limit)
    return found


def single_importers(modules: Mapping[str, Module], graph: Graph) -> list[tuple[str, str]]:
    """Return (module, importer) where one module alone imports it, from the same folder."""
    importers = defaultdict(set)
    for name, targets in graph.items():
        for target in targets:
            importers[target].add(name)
    pairs = ((name, next(iter(users))) for name, users in importers.items() if len(users) == 1)
    return sorted(
        (name, user)
        for name, user in pairs
        if modules[name].path.stem != "__init__" and modules[name].folder == modules[user].folder
    )


def line_kinds(source: str) -> Counter[str]:
    """Return how many lines are code, docstring or comment, and blank."""
    kinds = Counter(blank=0, prose=0, code=0)
    prose: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and _is_text(node.value):
            prose |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and lines[token.start[0] - 1].lstrip().startswith("#"):
            prose.add(token.start[0])
    for number, line in enumerate(lines, 1):
        kinds["blank" if not line.strip() else "prose" if number in prose else "code"] += 1
    return kinds


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def main(root: Path) -> None:
    """Print the figures of a checkout."""
    modules = read_package(root)
    graph = import_graph(modules)
    lines: Counter[str] = Counter()
    for module in modules.values():
        lines += line_kinds(module.source)
    folders = Counter(module.folder for module in modules.values())
    names = Counter(module.path.stem for module in modules.values())
    crowded = {folder: count for folder, count in folders.items() if count > FOLDER_LIMIT}
    repeated = {
        name: count for name, count in names.items() if count > 3 and name not in REPEATED_NAMES
    }
    groups = circles(graph)
    print(f"modules           {len(modules)}")
    print(f"lines             {lines.total()} ({dict(lines)})")
    print(f"folders           {len(folders)}; above {FOLDER_LIMIT} modules: {crowded or 'none'}")
    print(f"repeated names    {repeated or 'none'} more than thrice")
    print(f"single importers  {len(single_importers(modules, graph))} in the same folder")
    print(f"import circles    {[len(group) for group in groups] or 'none'}")
    for group in groups:
        print(f"  {', '.join(group[:12])}{' …' if len(group) > 12 else ''}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent)
