"""Inputs of environments that stay, on files of a folder."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.protocol.image_mapping import make_image_mapping
from pytest_kwait.suite.environment_inputs import (
    Project,
    describe_change,
    digest_value,
    list_code,
    list_program,
    recorded_files,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_CONFTEST = """
import os
from pathlib import Path
import helpers
from shop.names import NAME as TITLE

IMAGE = "shop/web:1"
UNUSED = 1

def label():
    return {"image": IMAGE}

def tag():
    return "a fixture"

def operator(kwait, tag):
    from shop import late
    kwait.apply(label(), helpers, TITLE, tag, os.environ["SHOP_IMAGE"])
    yield

def test_it(operator):
    assert True
"""
_FILES = {
    "conftest.py": _CONFTEST,
    "helpers.py": "import shop.base\n",
    "other.py": "",
    "shop/__init__.py": "",
    "shop/names.py": "from . import words\nNAME = 'shop'\n",
    "shop/words.py": "",
    "shop/base.py": "",
    "shop/late.py": "import json\n",
    "shop/apart.py": "",
    "deploy/a.yaml": "a: 1\n",
    "deploy/b.yaml": "b: 1\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in _FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def code(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], dict[str, str]]:
    """The digests of the function as it is now."""
    monkeypatch.syspath_prepend(folder)

    def load() -> dict[str, str]:
        spec = importlib.util.spec_from_file_location("inputs_conftest", folder / "conftest.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        for name in [name for name in sys.modules if name.split(".")[0] in ("helpers", "shop")]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        spec.loader.exec_module(module)
        return list_code(module.operator, Project(folder))

    return load


def test_the_code_of_a_function_is_what_it_names_and_imports(code: Any) -> None:
    assert sorted(code()) == [
        "$SHOP_IMAGE",
        "helpers.py",
        "shop/__init__.py",
        "shop/base.py",
        "shop/late.py",
        "shop/names.py",
        "shop/words.py",
        "the function operator",
    ]


@pytest.mark.parametrize(
    ("file", "before", "after", "change"),
    [
        ("conftest.py", "web:1", "web:2", "the function operator has changed"),
        ("conftest.py", '"image":', '"name":', "the function operator has changed"),
        ("conftest.py", "UNUSED = 1", "UNUSED = 2", ""),
        ("conftest.py", "assert True", "assert 1", ""),
        ("conftest.py", "a fixture", "whose value is compared", ""),
        ("conftest.py", "def label():", "def label():  # a comment", ""),
        ("shop/words.py", "", "X = 1", "shop/words.py has changed"),
        ("shop/late.py", "json", "yaml", "shop/late.py has changed"),
        ("shop/apart.py", "", "X = 1", ""),
    ],
)
def test_a_change_of_code_is_named(
    code: Any, folder: Path, file: str, before: str, after: str, change: str
) -> None:
    was = code()
    path = folder / file
    path.write_text(path.read_text().replace(before, after, 1))
    assert describe_change(was, code()) == change


def test_a_variable_of_the_environment_that_code_reads_is_an_input(
    code: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    was = code()
    monkeypatch.setenv("SHOP_IMAGE", "shop/web:9")
    assert describe_change(was, code()) == "$SHOP_IMAGE has changed"


def test_files_that_a_function_reads_by_itself_are_inputs(folder: Path) -> None:
    project = Project(folder)
    with recorded_files(project) as recorded:
        assert [path.name for path in sorted((folder / "deploy").iterdir())] == ["a.yaml", "b.yaml"]
        (folder / "deploy/a.yaml").read_text()
        (folder / "written.yaml").write_text("")
        subprocess.run(
            [sys.executable, "-c", "", "--values=other.py", "helpers.py"], cwd=folder, check=True
        )
        subprocess.run([sys.executable, "-c", "", "shop"], cwd=folder, check=True)
        Path(__file__).read_text()
        found = recorded()
    assert sorted(found) == ["deploy/", "deploy/a.yaml", "helpers.py", "other.py", "shop"]
    (folder / "deploy/c.yaml").touch()
    (folder / "shop/new.py").touch()
    changed = [name for name, digest in found.items() if project.digest(name) != digest]
    assert sorted(changed) == ["deploy/", "shop"]
    (folder / "deploy/a.yaml").unlink()
    assert project.digest("deploy/a.yaml") == ""


def test_changes_are_named() -> None:
    assert describe_change({"a": "1"}, {"a": "1"}) == ""
    assert describe_change({"a": "1"}, {"a": ""}) == "a is gone"
    assert describe_change({}, {"b": "1"}) == "b is new"


def test_the_program_of_an_image_is_its_files_and_those_that_it_imports(folder: Path) -> None:
    project = Project(folder)

    def files(command: str, **options: Any) -> list[str]:
        mapping = make_image_mapping("web:*", command, folder=folder, **options)
        return sorted(list_program(mapping, project))

    title = "the mapping of image web:*"
    named = ["shop/__init__.py", "shop/names.py", "shop/words.py", title]
    assert files("python -m shop.names") == named
    assert files("python helpers.py --config deploy/a.yaml") == [
        "deploy/a.yaml",
        "helpers.py",
        "shop/__init__.py",
        "shop/base.py",
        title,
    ]
    assert files("sleep 1", files={"/srv": folder / "deploy"}) == ["deploy", title]
    # A program on the path, and a folder of its name.
    script = folder / "bin" / "shop"
    script.parent.mkdir()
    script.write_text("#!/usr/bin/python\nfrom shop.names import main\n")
    script.chmod(0o755)
    assert files("shop", path=[script.parent]) == named
    (folder / "shop" / "main.py").write_text("import words\n")
    assert files("python shop/main.py") == ["shop/main.py", "shop/words.py", title]


def test_values_are_compared_as_far_as_they_are_known(folder: Path) -> None:
    project = Project(folder)

    class Namespaced:
        namespace = "t-db"

    same = [
        ({"b": 1, "a": {1, 2}}, {"a": {2, 1}, "b": 1}),
        (folder / "deploy", folder / "deploy"),
        (object(), object()),
        ([Namespaced()], ["t-db"]),
        ({(1, 2): 3}, {(4, 5): 6}),
        (lambda: (1, "a"), lambda: (1, "a")),
    ]
    assert all(digest_value(a, project) == digest_value(b, project) for a, b in same)
    different: list[tuple[object, object]] = [
        ("a", "b"),
        (folder / "deploy", folder / "shop"),
        (b"a", b"b"),
        (lambda: 1, lambda: 2),
        (lambda: [each * 2 for each in "a"], lambda: [each * 2 for each in "b"]),
    ]
    assert all(digest_value(a, project) != digest_value(b, project) for a, b in different)


def test_the_project_is_the_repository(folder: Path) -> None:
    assert Project(folder / "shop").title == "shop"
    (folder / ".git").mkdir()
    project = Project(folder / "shop")
    assert project.title == f"{folder.name}/shop"
    assert project.name_of(folder / "deploy") == "deploy"
    assert project.name_of(folder / ".git") == ""
    assert project.name_of(folder.parent) == ""
