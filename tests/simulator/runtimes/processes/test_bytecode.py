"""Bytecode of virtual environments: which programs need it, and what is kept of a container."""

from __future__ import annotations

import importlib.util
import os
import py_compile
import sys
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.simulator.runtimes.processes import bytecode
from pytest_kwait.simulator.runtimes.processes.bytecode import BytecodeCache, find_environment

if TYPE_CHECKING:
    from pathlib import Path

_TAG = sys.implementation.cache_tag


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    """Make a virtual environment with a package that is not compiled."""
    root = tmp_path / "venv"
    package = root / "lib" / "python3.11" / "site-packages" / "shop"
    package.mkdir(parents=True)
    (root / "bin").mkdir()
    (root / "pyvenv.cfg").touch()
    (package / "__init__.py").write_text("A = 1\n")
    (package / "web.py").write_text("A = 2\n")
    for name, text in (("python3", ""), ("gunicorn", f"#!{root}/bin/python\n"), ("tool", "ELF")):
        (root / "bin" / name).write_text(text)
        (root / "bin" / name).chmod(0o755)
    return root


@pytest.mark.parametrize(
    ("argv", "env", "is_found"),
    [
        (["BIN/python3", "-m", "shop"], {}, True),
        (["./bin/python3", "-c", "-B"], {}, True),
        (["python3", "x.py"], {"PATH": "/nowhere:BIN"}, True),
        (["gunicorn", "shop"], {"PATH": "BIN"}, True),
        (["BIN/tool"], {}, False),
        (["BIN/absent"], {}, False),
        (["absent"], {"PATH": "BIN"}, False),
        (["/bin/sh"], {}, False),
        (["BIN/python3", "-uB", "x.py"], {}, False),
        (["BIN/python3"], {"PYTHONDONTWRITEBYTECODE": "1"}, False),
        (["BIN/python3"], {"PYTHONDONTWRITEBYTECODE": ""}, True),
        (["BIN/python3"], {"PYTHONPYCACHEPREFIX": "/own"}, False),
    ],
)
def test_programs_of_an_environment_without_bytecode_are_found(
    argv: list[str], env: dict[str, str], is_found: bool, venv: Path
) -> None:
    words = [word.replace("BIN", f"{venv}/bin") for word in argv]
    variables = {name: value.replace("BIN", f"{venv}/bin") for name, value in env.items()}
    assert find_environment(words, variables, str(venv)) == (str(venv) if is_found else "")


@pytest.mark.parametrize(("package", "is_found"), [("shop", False), ("pip", True)])
def test_an_environment_with_bytecode_is_left_alone(
    package: str, is_found: bool, venv: Path
) -> None:
    folder = venv / "lib/python3.11/site-packages" / package
    (folder / "__pycache__").mkdir(parents=True)
    (folder / "__init__.py").touch()
    assert bool(find_environment([f"{venv}/bin/python3"], {}, "/")) is is_found


@pytest.fixture
def cache(tmp_path: Path) -> BytecodeCache:
    return BytecodeCache(tmp_path / "cache")


def _compile(source: Path, folder: Path) -> Path:
    """Write the bytecode of a file as Python does below `PYTHONPYCACHEPREFIX`."""
    target = folder / str(source)[1:]
    target = target.parent / f"{source.stem}.{_TAG}.pyc"
    py_compile.compile(str(source), str(target), doraise=True)
    return target


def _list(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if not path.is_dir())


def test_the_next_container_has_what_another_one_has_written(
    venv: Path, cache: BytecodeCache
) -> None:
    package = venv / "lib/python3.11/site-packages/shop"
    first = cache.open(str(venv), [])
    assert _list(first.folder) == []
    _compile(package / "__init__.py", first.folder)
    # Of one that still runs.
    second = cache.open(str(venv), [])
    assert _list(second.folder) == [f"__init__.{_TAG}.pyc"]
    _compile(package / "web.py", second.folder)
    second.close()
    second.close()
    assert not second.folder.exists()
    first.close()
    third = cache.open(str(venv), [])
    assert _list(third.folder) == [f"__init__.{_TAG}.pyc", f"web.{_TAG}.pyc"]
    assert _list(cache.open("/another", []).folder) == []


def test_a_container_may_add_files_in_all_folders(venv: Path, cache: BytecodeCache) -> None:
    first = cache.open(str(venv), [])
    _compile(venv / "lib/python3.11/site-packages/shop/web.py", first.folder)
    first.close()
    folder = cache.open(str(venv), []).folder
    assert all(path.stat().st_mode & 0o777 == 0o777 for path in [folder, *folder.rglob("shop")])


@pytest.mark.parametrize(
    "kind", ["changed source", "mount", "own code", "link", "other file", "missing source", "fifo"]
)
def test_other_files_are_not_kept(
    kind: str, venv: Path, cache: BytecodeCache, tmp_path: Path
) -> None:
    source = venv / "lib/python3.11/site-packages/shop/web.py"
    hidden = [str(source.parent)] if kind == "mount" else []
    if kind == "own code":
        source = tmp_path / "src" / "web.py"
        source.parent.mkdir()
        source.write_text("")
    first = cache.open(str(venv), hidden)
    target = _compile(source, first.folder)
    if kind == "changed source":
        source.write_text("A = 23\n")
    elif kind == "missing source":
        source.unlink()
    elif kind in ("link", "fifo"):
        data = target.read_bytes()
        target.unlink()
        if kind == "link":
            (tmp_path / "data").write_bytes(data)
            target.symlink_to(tmp_path / "data")
        else:
            os.mkfifo(target)
    elif kind == "other file":
        target.rename(target.with_name("web.txt"))
        target.write_bytes(b"short")
    first.close()
    assert _list(cache.open(str(venv), []).folder) == []


def test_a_linked_folder_is_not_followed(venv: Path, cache: BytecodeCache, tmp_path: Path) -> None:
    first = cache.open(str(venv), [])
    target = _compile(venv / "lib/python3.11/site-packages/shop/web.py", first.folder)
    target.parent.rename(tmp_path / "moved")
    target.parent.symlink_to(tmp_path / "moved")
    first.close()
    assert _list(cache.open(str(venv), []).folder) == []
    assert _list(tmp_path / "moved") == [target.name]


def test_the_number_of_files_is_bounded(
    venv: Path, cache: BytecodeCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bytecode, "_MAX_FILES", 1)
    first = cache.open(str(venv), [])
    for name in ("__init__", "web"):
        _compile(venv / f"lib/python3.11/site-packages/shop/{name}.py", first.folder)
    first.close()
    assert len(_list(cache.open(str(venv), []).folder)) == 1


def test_the_names_are_those_of_python(venv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "pycache_prefix", "/prefix")
    source = venv / "lib/python3.11/site-packages/shop/web.py"
    found = importlib.util.cache_from_source(str(source), optimization=2)
    assert found == f"/prefix{source.parent}/web.{_TAG}.opt-2.pyc"
