"""The pytest plugin: hooks, options, fixtures and markers over the layers below.

At startup pytest knows only this module and `run`. The fixtures are registered once a test or
fixture names one of them, the other modules once a setting is given, or a test uses a fixture or
marker of the plugin: a suite without waits pays nothing. Loading imports the standard library,
pytest and names alone. Each module owns its hooks and can be switched off, for example with `-p
no:pytest_kwait.plugin.summary`.

Contents: code that needs pytest. Everything else belongs to `suite`.
"""

from __future__ import annotations

import os
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.plugin.run import (
    activate,
    is_active,
    register,
    register_fixtures,
    register_fixtures_on_use,
    uses_plugin,
)
from pytest_kwait.suite.config.options import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Generator


_ENGINE = "pytest_kwait.engine"


_KWAIT_MARKER = (
    "kwait(*, timeout, timeouts, poll, mode, fail_fast, grace, stable_for, keep): settings of "
    "these tests; the marker nearest to the test wins, timeouts are merged name by name."
)
_MANIFESTS_MARKER = (
    "manifests(*files, validate='strict'): apply manifests in the test's namespace before it "
    "starts; paths are relative to the test's file, then to rootdir."
)
_SIMPLE_MARKERS = (
    "serial: run alone on the cluster; the test waits until no other test uses it.",
    "disruptive: the test disturbs its cluster; implies serial.",
    "slow: the test takes long.",
)


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Add an option and an ini name for each setting; values are read in `settings`."""
    group = parser.getgroup("kwait", "Kubernetes end-to-end waits (pytest-kwait)")
    for definition in OPTIONS:
        default = definition.default
        shown = "" if default in (None, {}, ()) else f" [{_format_default(default)}]"
        text = f"{definition.help}{shown}".replace("%", "%%")
        group.addoption(
            definition.flag,
            dest=definition.ini,
            action="append" if definition.repeatable else "store",
            metavar=definition.metavar,
            help=f"{text}; also {definition.env} and ini {definition.ini}",
        )
        parser.addini(definition.ini, definition.help, type="string", default=None)
    register(pluginmanager, ("pytest_kwait.plugin.run",))


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> None:
    """Refuse a run whose rootdir was taken from an option's value."""
    if any(
        name.startswith("--") and not value.startswith("-") and Path(value).exists()
        for name, value in pairwise(args)
    ) or any(each.startswith("@") for each in args):
        from pytest_kwait.plugin.settings import check_rootdir

        check_rootdir(early_config, parser, args)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the markers; activate the plugin if any setting is given."""
    from pytest_kwait.framework.wait_names import WAIT_NAMES

    for line in (_KWAIT_MARKER, _MANIFESTS_MARKER, *_SIMPLE_MARKERS):
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
        # Their names are enough to register them.
        for name in WAIT_NAMES:
            config.addinivalue_line("markers", name)
    if _is_configured(config):
        activate(config)


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Offer the fixtures, once pytest has made its manager of fixtures."""
    config = session.config
    register_fixtures_on_use(session)
    if config.getoption("showfixtures") or config.getoption("show_fixtures_per_test"):
        from pytest_kwait.plugin.fixtures import add_docstrings

        add_docstrings()
        register_fixtures(config.pluginmanager)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Activate the plugin for the first test that uses it; replace tests with invalid markers."""
    report = yield
    if report.result:
        config = collector.config
        if not is_active(config) and any(uses_plugin(node) for node in report.result):
            activate(config)
        if is_active(config):
            from pytest_kwait.plugin.markers import check_node

            report.result = [check_node(node) for node in report.result]
    return report


def pytest_collection_finish(session: pytest.Session) -> None:
    """Activate the plugin if tests import a wait, or were given markers late."""
    if _ENGINE in sys.modules or any(uses_plugin(item) for item in session.items):
        activate(session.config)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Activate the plugin if an earlier test has imported a wait."""
    if _ENGINE in sys.modules:
        activate(item.config)


def _is_configured(config: pytest.Config) -> bool:
    """Return whether a setting is given anywhere, valid or not, or the run has workers."""
    if config.getoption("dist", "no") != "no" or hasattr(config, "workerinput"):
        return True
    if any(name.startswith("KWAIT_") or name == "KUBECONFIG" for name in os.environ):
        return True
    try:
        return any(
            config.getoption(each.ini) is not None or config.getini(each.ini) for each in OPTIONS
        )
    except TypeError:
        # A TOML value of another type; reported when the settings are read.
        return True


def _format_default(default: object) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, tuple):
        return ",".join(default)
    return f"{default:g}" if isinstance(default, float) else str(default)
