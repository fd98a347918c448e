"""Plugins that define no fixtures, in which a process looks for fixtures once.

pytest looks through all names of every plugin as each run starts, a third of most runs that tests
start.
"""

from __future__ import annotations

import types
import weakref
from typing import TYPE_CHECKING, Any

from _pytest.fixtures import FixtureManager

if TYPE_CHECKING:
    import pytest

_WITHOUT_FIXTURES: weakref.WeakSet[types.ModuleType | type] = weakref.WeakSet()
_register: Any = FixtureManager.pytest_plugin_registered


def _plugin_registered(self: FixtureManager, plugin: object, plugin_name: str) -> None:
    # pytest looks for fixtures of an object in its class alone.
    holder = plugin if isinstance(plugin, types.ModuleType | type) else type(plugin)
    if holder in _WITHOUT_FIXTURES:
        return
    found = False
    register_fixture = self._register_fixture

    def register(*arguments: Any, **options: Any) -> None:
        nonlocal found
        found = True
        register_fixture(*arguments, **options)

    vars(self)["_register_fixture"] = register
    try:
        _register(self, plugin, plugin_name)
    finally:
        del vars(self)["_register_fixture"]
    if not found and not plugin_name.endswith("conftest.py"):  # whose fixtures are found later
        _WITHOUT_FIXTURES.add(holder)


def look_for_fixtures_once(patch: pytest.MonkeyPatch) -> None:
    """Have the runs of this process keep which plugins have no fixtures."""
    hook: Any = _plugin_registered
    patch.setattr(FixtureManager, "pytest_plugin_registered", hook)
