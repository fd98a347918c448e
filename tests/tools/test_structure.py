"""The figures of the package's structure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tools import structure

if TYPE_CHECKING:
    import pytest


def make_package(root: Path, **sources: str) -> dict[str, structure.Module]:
    folder = root / structure.PACKAGE
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    for name, source in sources.items():
        (folder / f"{name}.py").write_text(source)
    return structure.read_package(root)


def test_circles_count_imports_for_types_and_in_functions(tmp_path: Path) -> None:
    modules = make_package(
        tmp_path,
        a="from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pytest_kwait import b",
        b="def f():\n    from . import c",
        c="from pytest_kwait.a import x",
        d="import pytest_kwait.a",
    )

    assert structure.circles(structure.import_graph(modules)) == [
        ["pytest_kwait.a", "pytest_kwait.b", "pytest_kwait.c"]
    ]


def test_the_package_has_no_circle() -> None:
    """Contracts leave out what the cluster's interface imports for types; this does not."""
    graph = structure.import_graph(structure.read_package(Path(__file__).parents[2]))
    assert structure.circles(graph) == []


def test_single_importers_are_in_the_same_folder(tmp_path: Path) -> None:
    modules = make_package(
        tmp_path, a="import pytest_kwait.b\nimport pytest_kwait.c", b="", c="", d="from . import c"
    )

    assert structure.single_importers(modules, structure.import_graph(modules)) == [
        ("pytest_kwait.b", "pytest_kwait.a")
    ]


def test_line_kinds_tell_prose_from_code() -> None:
    kinds = structure.line_kinds('"""A module."""\n\n# Why.\nx = 1  # beside code\n')

    assert kinds == {"prose": 2, "blank": 1, "code": 1}


def test_report_of_a_checkout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_package(tmp_path, a="from . import b", b="from . import a\n\nx = 1")
    structure.main(tmp_path)

    assert capsys.readouterr().out.splitlines() == [
        "modules           3",
        "lines             4 ({'code': 3, 'blank': 1})",
        "folders           1; above 25 modules: none",
        "repeated names    none more than thrice",
        "single importers  2 in the same folder",
        "import circles    [2]",
        "  pytest_kwait.a, pytest_kwait.b",
    ]
