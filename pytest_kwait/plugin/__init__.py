"""What pytest touches: hooks, options, fixtures and markers, thin over the rooms below.

Only the list of its modules lives here; each owns its hooks and can be switched off by itself, as
with `-p no:pytest_kwait.plugin.header`. Modules import the standard library and pytest at the top
and everything else where it is used: a suite that waits for nothing must not pay for it.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

MODULES = (
    "pytest_kwait.plugin.settings",
    "pytest_kwait.plugin.header",
    "pytest_kwait.plugin.markers",
    "pytest_kwait.plugin.distributed",
    "pytest_kwait.plugin.running",
    "pytest_kwait.plugin.deadlines",
    "pytest_kwait.plugin.progress",
    "pytest_kwait.plugin.outcomes",
    "pytest_kwait.plugin.fixtures",
    "pytest_kwait.plugin.waits",
    "pytest_kwait.plugin.preconditions",
)


_OURS = ("pytest_", "kwait", "_kwait", "wait_for")
"""How the names of hooks and fixtures begin."""


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    """Register the modules.

    `pytest_plugins` would do the same, but pytest then searches the metadata of everything that is
    installed once for each of them, which costs more than all the rest of loading. It also looks
    into every name of what is registered, those that a module has imported too: it is shown hooks
    and fixtures alone.
    """
    for name in MODULES:
        if not pluginmanager.is_blocked(name):
            shown = ModuleType(name)
            for attribute, value in vars(import_module(name)).items():
                if attribute.startswith(_OURS):
                    setattr(shown, attribute, value)
            pluginmanager.register(shown, name)
