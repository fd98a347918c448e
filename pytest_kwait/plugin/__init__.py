"""The pytest plugin: hooks, options, fixtures and markers over the layers below.

At startup pytest knows only this module, `run` and `fixtures`. The other modules are
registered once a setting is given, or a test uses one of our fixtures or markers, so that a
suite without waits pays nothing: loading imports the standard library, pytest and names
alone. Each module owns its hooks and can be switched off, for example with `-p
no:pytest_kwait.plugin.summary`.

May enter: code that needs pytest. Everything else belongs to `suite`.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.suite.config.options import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["FIRST", "MODULES", "activate", "asks", "is_active"]

FIRST = (
    "pytest_kwait.plugin.run",
    "pytest_kwait.plugin.fixtures",
    "pytest_kwait.plugin.fixtures",
)
"""What is registered when pytest starts."""

MODULES = (
    "pytest_kwait.plugin.settings",
    "pytest_kwait.plugin.settings",
    "pytest_kwait.plugin.shards",
    "pytest_kwait.plugin.cluster",
    "pytest_kwait.plugin.live_status",
    "pytest_kwait.plugin.kept_namespaces",
    "pytest_kwait.plugin.failures",
    "pytest_kwait.plugin.artifacts",
    "pytest_kwait.plugin.artifacts",
    "pytest_kwait.plugin.artifacts",
    "pytest_kwait.plugin.junit",
    "pytest_kwait.plugin.github",
    "pytest_kwait.plugin.summary",
    "pytest_kwait.plugin.report",
    "pytest_kwait.plugin.markers",
    "pytest_kwait.plugin.faults",
    "pytest_kwait.plugin.lock",
    "pytest_kwait.plugin.cleanup",
    "pytest_kwait.plugin.readiness",
    "pytest_kwait.plugin.debugging",
)
"""What is registered once there is anything to do."""

_ENGINE = "pytest_kwait.engine"
_OURS = ("pytest_", "kwait", "_kwait", "wait_for")
"""How the names of hooks and fixtures begin."""

_active_key = pytest.StashKey[bool]()

_KWAIT = (
    "kwait(*, timeout, timeouts, poll, mode, fail_fast, grace, stable_for, keep): settings of "
    "these tests; the nearest of function, class and module wins, timeouts name by name."
)
_MANIFESTS = (
    "manifests(*files): apply these manifests in the test's namespace before it starts; paths are "
    "relative to the test's file, then to rootdir."
)
_PLAIN = (
    "serial: must not run beside other tests on the same cluster; waits until none does.",
    "disruptive: disturbs the cluster that it runs on; serial as well.",
    "slow: takes longer than most.",
)


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Add an option and an ini name for each setting; values of all places are read later."""
    group = parser.getgroup("kwait", "Kubernetes end-to-end waits (pytest-kwait)")
    for definition in OPTIONS:
        default = "" if definition.default in (None, {}, ()) else f" [{_shown(definition.default)}]"
        text = f"{definition.help}{default}".replace("%", "%%")
        group.addoption(
            definition.flag,
            dest=definition.ini,
            action="append" if definition.repeatable else "store",
            metavar=definition.metavar,
            help=f"{text}; also {definition.env} and ini {definition.ini}",
        )
        parser.addini(definition.ini, definition.help, type="string", default=None)
    _register(pluginmanager, FIRST)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the markers; take part at once where anybody has said anything to us."""
    from pytest_kwait.plugin.fixtures import WAIT_NAMES, add_docstrings

    for line in (_KWAIT, _MANIFESTS, *_PLAIN):
        config.addinivalue_line("markers", line)
    if config.getoption("markers"):
        from pytest_kwait.framework.registry import WAITS

        for name, wait in WAITS.items():
            config.addinivalue_line(
                "markers",
                f"{name}({wait.usage}, **options): before the test starts, wait for "
                f"{wait.summary}; options as for the fixture.",
            )
    else:
        # The names are enough to know them by.
        for name in WAIT_NAMES:
            config.addinivalue_line("markers", name)
    if config.getoption("showfixtures") or config.getoption("show_fixtures_per_test"):
        add_docstrings()
    if _is_addressed(config):
        activate(config)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Take part once a test asks for us; replace each whose markers cannot be meant."""
    report = yield
    if report.result:
        config = collector.config
        if not is_active(config) and any(asks(node) for node in report.result):
            activate(config)
        if is_active(config):
            from pytest_kwait.plugin.markers import check_node

            report.result = [check_node(node) for node in report.result]
    return report


def pytest_collection_finish(session: pytest.Session) -> None:
    """Take part where tests wait by functions alone, or were given markers after all."""
    if _ENGINE in sys.modules or any(asks(item) for item in session.items):
        activate(session.config)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Take part where a test before this one has imported a wait."""
    if _ENGINE in sys.modules:
        activate(item.config)


def activate(config: pytest.Config) -> None:
    """Register what is not registered yet; nothing where that is done."""
    if is_active(config):
        return
    config.stash[_active_key] = True
    _register(config.pluginmanager, MODULES)
    if config.pluginmanager.hasplugin("session"):
        # The hooks that start a session have been called already.
        progress = config.pluginmanager.getplugin("pytest_kwait.plugin.live_status")
        if progress is not None:
            progress.pytest_sessionstart(session=config.pluginmanager.getplugin("session"))


def is_active(config: pytest.Config) -> bool:
    """Whether everything is registered."""
    return _active_key in config.stash


def _register(pluginmanager: pytest.PytestPluginManager, modules: tuple[str, ...]) -> None:
    """Register modules.

    `pytest_plugins` would do the same, but pytest then searches the metadata of everything that is
    installed once for each of them, which costs more than all the rest of loading. It also looks
    into every name of what is registered, those that a module has imported too: it is shown hooks
    and fixtures alone.
    """
    for name in modules:
        if not pluginmanager.is_blocked(name):
            shown = ModuleType(name)
            for attribute, value in vars(import_module(name)).items():
                if attribute.startswith(_OURS):
                    setattr(shown, attribute, value)
            pluginmanager.register(shown, name)


def _is_addressed(config: pytest.Config) -> bool:
    """Whether a setting is given anywhere, good or bad, or workers may ask for a cluster."""
    if config.getoption("dist", "no") != "no" or hasattr(config, "workerinput"):
        return True
    if any(name.startswith("KWAIT_") or name == "KUBECONFIG" for name in os.environ):
        return True
    try:
        return any(
            config.getoption(each.ini) is not None or config.getini(each.ini) for each in OPTIONS
        )
    except TypeError:
        # A TOML value of another type; whoever reads it says so.
        return True


def asks(node: object) -> bool:
    """Whether a test names a fixture or a marker of ours."""
    if not isinstance(node, pytest.Item):
        return False
    from pytest_kwait.plugin.fixtures import WAIT_NAMES

    names = (*getattr(node, "fixturenames", ()), *(mark.name for mark in node.iter_markers()))
    return any(name in WAIT_NAMES or name.startswith(("kwait", "manifests")) for name in names)


def _shown(default: object) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, tuple):
        return ",".join(default)
    return f"{default:g}" if isinstance(default, float) else str(default)
