from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import pytest_kwait
from pytest_kwait import public_names
from pytest_kwait.framework.registry import WAITS
from pytest_kwait.framework.wait_names import WAIT_MODULES

COSTLY = (
    "aiohttp",
    "asyncio",
    "kubernetes",
    "msgspec",
    "multiprocessing",
    "requests",
    "ssl",
    "urllib3",
    "yaml",
)


def test_every_public_name_exists_and_has_a_docstring() -> None:
    values = {name: getattr(pytest_kwait, name) for name in pytest_kwait.__all__}

    assert {name: vars(pytest_kwait)[name] for name in values} == values
    assert [
        name
        for name, value in values.items()
        if callable(value) and name not in ("Mode", "Verdict") and not value.__doc__
    ] == []


def test_public_names_are_sorted_as_ruff_sorts_them() -> None:
    constants = [name for name in pytest_kwait.__all__ if name.isupper()]
    classes = [name for name in pytest_kwait.__all__ if name[0].isupper() and not name.isupper()]
    functions = [name for name in pytest_kwait.__all__ if name.islower()]
    assert pytest_kwait.__all__ == sorted(constants) + sorted(classes) + sorted(functions)


def test_every_wait_is_public() -> None:
    assert set(WAITS) <= set(pytest_kwait.__all__)
    for name, wait in WAITS.items():
        assert getattr(pytest_kwait, name) is wait.function


def test_type_checkers_see_the_names_that_are_resolved_on_use() -> None:
    tree = ast.parse(Path(public_names.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.name: (node.module or "").removeprefix("pytest_kwait.")
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    others = {name: home for home, names in public_names.HOMES.items() for name in names}
    assert seen == others | WAIT_MODULES
    assert sorted(seen) == sorted(pytest_kwait.__all__)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(
        AttributeError, match=r"^module 'pytest_kwait' has no attribute 'wait_for_godot'$"
    ):
        _ = pytest_kwait.wait_for_godot
    assert not hasattr(pytest_kwait, "wait_for_godot")
    assert {*pytest_kwait.__all__, *public_names.MODULES} <= set(dir(pytest_kwait))


def test_every_public_name_can_be_imported_at_once() -> None:
    given: dict[str, object] = {}
    exec("from pytest_kwait import *", given)
    assert given.keys() >= set(pytest_kwait.__all__)
    assert not {"HOMES", "MODULES"} & given.keys()


@pytest.mark.parametrize("name", ["HOMES", "MODULES", "import_module"])
def test_helpers_of_the_names_are_not_public(name: str) -> None:
    assert not hasattr(public_names, "wait_for_godot")
    with pytest.raises(AttributeError):
        pytest_kwait.__getattr__(name)


def imported(program: str) -> set[str]:
    report = f"{program}\nimport sys; print(*sorted(sys.modules), sep='\\n')"
    ran = subprocess.run(
        [sys.executable, "-c", report], capture_output=True, text=True, check=True, timeout=60
    )
    return set(ran.stdout.splitlines())


def test_importing_the_package_imports_nothing_costly() -> None:
    modules = imported("import pytest_kwait")
    assert modules.isdisjoint(COSTLY)
    assert {name for name in modules if name.startswith("pytest_kwait")} == {"pytest_kwait"}


def test_loading_the_plugin_imports_the_standard_library_and_pytest_alone() -> None:
    before = imported("import pytest, dataclasses")
    program = """
import pytest, importlib
from pytest_kwait.plugin import activation
for name in {modules}:
    importlib.import_module(name)
"""
    first = imported(program.format(modules="()")) - before
    assert {name for name in first if name.startswith("pytest_kwait.")} == {
        "pytest_kwait.plugin",
        "pytest_kwait.plugin.activation",
        "pytest_kwait.plugin.internals",
        "pytest_kwait.plugin.run",
        "pytest_kwait.plugin.startup",
        "pytest_kwait.plugin.timeout",
        "pytest_kwait.plugin.usage",
        "pytest_kwait.suite",
        "pytest_kwait.suite.config",
        "pytest_kwait.suite.config.options",
    }
    table = "[f'pytest_kwait.plugin.{row.module}' for row in activation.PLUGINS]"
    everything = imported(program.format(modules=table)) - before
    for added in (first, everything):
        assert added.isdisjoint(COSTLY)
        foreign = {name.partition(".")[0] for name in added} - set(sys.stdlib_module_names)
        assert foreign == {"pytest_kwait"}
    rooms = {name.split(".")[1] for name in everything if name.startswith("pytest_kwait.")}
    assert rooms == {
        "apimachinery",
        "clock",
        "engine",
        "errors",
        "framework",
        "plugin",
        "suite",
        "worker",
    }


@pytest.mark.parametrize(
    "name",
    ["cache", "clusters", "errors", "leaderelection", "scheduler", "testing", "typing", "wait"],
)
def test_public_modules_are_attributes_without_an_import(name: str) -> None:
    code = (
        f"import pytest_kwait; print(pytest_kwait.{name}.__name__, {name!r} in dir(pytest_kwait))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"pytest_kwait.{name} True\n"
