"""The pytest plugin: hooks, options, fixtures and markers over the layers below.

At startup pytest knows only this module and `run`; `startup` registers the others. Each module
owns its hooks and can be switched off, for example with `-p no:pytest_kwait.plugin.summary`.

Contents: code that needs pytest. Everything else belongs to `suite`. This module is short, since
pytest reads it, and `pytest_kwait` itself, byte by byte.
"""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


class _PlainImports:
    """Finds our modules before pytest does, which would rewrite their asserts.

    pytest does that for all modules of a plugin's package: that costs a quarter of a second in a
    run of one test, and much more where it cannot write its bytecode.
    """

    def __enter__(self) -> None:
        sys.meta_path.insert(0, self)

    def __exit__(self, *_error: object) -> None:
        sys.meta_path.remove(self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module of ours; None for all others."""
        if name.startswith("pytest_kwait."):
            return PathFinder.find_spec(name, path, target)
        return None


with _PlainImports():
    from pytest_kwait.plugin.startup import (
        configure,
        pytest_addhooks,
        pytest_addoption,
        pytest_collection_finish,
        pytest_load_initial_conftests,
        pytest_make_collect_report,
        pytest_runtest_setup,
        pytest_sessionstart,
    )

__all__ = [
    "pytest_addhooks",
    "pytest_addoption",
    "pytest_collection_finish",
    "pytest_configure",
    "pytest_load_initial_conftests",
    "pytest_make_collect_report",
    "pytest_runtest_setup",
    "pytest_sessionstart",
]


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Import our modules plainly until the run ends, and configure the plugin."""
    plain_imports = _PlainImports()
    plain_imports.__enter__()
    config.add_cleanup(plain_imports.__exit__)
    configure(config)
