"""The house rules that no other tool checks."""

from __future__ import annotations

import ast
import re
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
MODULES = sorted((ROOT / "pytest_kwait").rglob("*.py"))
SHAPELESS = {"helper", "helpers", "common", "misc", "base"}


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_module_names_describe_their_contents() -> None:
    shapeless = [
        relative(path) for path in MODULES if SHAPELESS & set(re.split(r"[_.]", path.stem))
    ]

    assert shapeless == []


def test_folders_have_a_docstring() -> None:
    folders = sorted({path.parent for path in MODULES})
    without = [
        relative(folder)
        for folder in folders
        if not (folder / "__init__.py").read_text().startswith('"""')
    ]

    assert without == []


def test_decoders_of_types_are_made_one_at_a_time() -> None:
    """At import, which has a lock, or by `make_decoder`: msgspec crashes where threads do it."""
    elsewhere = [
        f"{relative(path)}: {function}"
        for path in MODULES
        for function in sorted(_functions_that_make_decoders(path) - {"make_decoder"})
    ]

    assert elsewhere == []


def _functions_that_make_decoders(path: Path) -> set[str]:
    source = path.read_text()
    if not re.search(r"\.Decoder\(|msgspec[\w.]*\.(decode|convert)\(", source):
        return set()
    functions = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef))
    return {
        function.name
        for function in functions
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and _makes_a_decoder(node)
    }


def _makes_a_decoder(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    typed = any(keyword.arg == "type" for keyword in call.keywords)
    return name.endswith(".Decoder") or (
        typed and name.startswith("msgspec") and name.endswith((".decode", ".convert"))
    )


def test_every_module_with_logic_has_tests_that_are_found_by_name() -> None:
    """In `test_<module>.py` of its folder, or where the table says."""
    table: dict[str, str] = tomllib.loads((ROOT / "tests/tests_of_modules.toml").read_text())
    unnamed = {
        path.relative_to(ROOT / "pytest_kwait").with_suffix("").as_posix()
        for path in MODULES
        if _has_logic(path) and not _has_tests_of_its_name(path)
    }
    used = {name if name in table else name.rpartition("/")[0] for name in unnamed}

    assert (
        sorted(name for name in unnamed if not {name, name.rpartition("/")[0]} & set(table)) == []
    )
    assert sorted(table.keys() - used) == []
    assert [path for path in table.values() if not (ROOT / path).exists()] == []


def _has_logic(path: Path) -> bool:
    generated = "pytest_kwait/simulator/data" in path.as_posix()
    return path.stem != "__init__" and not generated and "def " in path.read_text()


def _has_tests_of_its_name(path: Path) -> bool:
    folder = path.relative_to(ROOT / "pytest_kwait").parent
    name = f"test_{path.name}"
    return any((ROOT / tests / folder / name).exists() for tests in ("tests", "integration"))


def test_lowest_versions_are_those_that_the_package_allows() -> None:
    def versions(requirements: list[str], operator: str) -> dict[str, str]:
        pairs = (requirement.split(operator) for requirement in requirements)
        return {name.lower(): version.split(",")[0].removesuffix(".*") for name, version in pairs}

    package = project()["project"]
    allowed = versions([*package["dependencies"], *package["optional-dependencies"]["cel"]], ">=")
    tested = versions(project()["dependency-groups"]["lowest"], "==")

    assert tested == allowed


def test_every_dependency_has_its_reason() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    block = text[text.index("\ndependencies = [") : text.index("[project.entry-points")]
    lines = [line.strip() for line in block.splitlines()[2:] if line.strip(" ]")]
    without = [line for above, line in pairwise(lines) if line[0] == above[0] == '"']

    assert without == []


def test_ci_finds_the_two_commands_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    commands = re.findall(r"```console\n\$ (.+)\n```", readme)

    assert commands == [
        'python3 -m venv .venv && .venv/bin/pip install -q ".[cel]" && .venv/bin/pytest e2e -n 4',
        'python3 -m venv .venv && .venv/bin/pip install -q ".[test]" && .venv/bin/pytest -n auto',
    ]
