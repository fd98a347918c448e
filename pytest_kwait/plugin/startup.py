"""Options, markers and fixtures, and when a run is activated.

Contains the hooks that pytest calls in every run: a suite without waits pays for these alone, so
they import the standard library, pytest and names. `activation` says when the plugin objects are
registered, and why then.
"""

from __future__ import annotations

import argparse
import os
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.plugin.activation import activate
from pytest_kwait.plugin.run import is_active
from pytest_kwait.plugin.timeout import RunningTest, running_test_key
from pytest_kwait.plugin.usage import is_fixture_name, uses_plugin
from pytest_kwait.suite.config.options import MARKER_KEYS, OPTION_GROUPS, OPTIONS

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_kwait.suite.config.options import SettingDefinition

_ENGINE = "pytest_kwait.engine"

KWAIT_MARKER = (
    f"kwait(*, {', '.join(MARKER_KEYS)}): settings of these tests; the marker nearest to the test "
    "wins, timeouts are merged name by name."
)
MARKERS = (
    "kwait_manifests(*files, validate='strict', namespace=None, **variables): apply manifests in "
    "the test's namespace before it starts; paths are relative to the test's file, then to "
    "rootdir.",
    "kwait_serial: run alone on the cluster; the test waits until no other test uses it.",
    "kwait_disruptive: the test disturbs its cluster; implies serial.",
    "kwait_slow: the test takes long.",
)
_PLAIN_MARKERS_HELP = (
    "whether the markers kwait_manifests, kwait_serial, kwait_disruptive and kwait_slow are known "
    "without kwait_ as well"
)
SKIP_MARKERS = (
    "kwait_skip_unless_server_version_gte(version): skip on servers before this version.",
    "kwait_skip_unless_node_count_is_at_least(count): skip on clusters with fewer nodes.",
    "kwait_skip_unless_provider_is(*names): skip on clusters of other providers.",
    "kwait_skip_if_provider_is(*names): skip on clusters of these providers.",
    "kwait_skip_if_missing_resource(*names): skip where a resource (`gateways.gateway."
    "networking.k8s.io`) is not served.",
    "kwait_skip_unless_feature_gate_enabled(*names): skip where a feature gate of the API server "
    "is off.",
    "kwait_skip_unless_programs_isolated(*parts): skip where programs in pods have no network and "
    "files of their own, or lack one of parts: 'processes', 'storage', 'users'.",
)


_GROUP_NOTES = {
    "cluster": " (each option is also KWAIT_... in the environment and kwait_... in ini files)",
    "waits": " (SECONDS: 90, 500ms, 2s or 1m30s)",
}


class _Switch(argparse.Action):
    """An option without a value, and its opposite: `--kwait-x` and `--kwait-no-x`."""

    def __init__(self, option_strings: list[str], dest: str, help: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(
        self, _parser: object, namespace: argparse.Namespace, _values: object, flag: str | None = ""
    ) -> None:
        """Store the text that the environment and ini files take."""
        setattr(namespace, self.dest, "true" if flag == self.option_strings[0] else "false")


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the hooks that other plugins implement."""
    from pytest_kwait.plugin import hookspecs

    pluginmanager.add_hookspecs(hookspecs)


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Add options and ini names, one for each setting; values are read in `settings`."""
    _refuse_values_of_switches(pluginmanager.getplugin("pytestconfig"))
    for title, definitions in OPTION_GROUPS:
        note = _GROUP_NOTES.get(title, "")
        group = parser.getgroup(f"kwait {title}", f"pytest-kwait: {title}{note}")
        for definition in definitions:
            values: dict[str, Any] = {"metavar": definition.metavar, "action": "store"}
            if definition.kind == "bool":
                values = {"action": _Switch}
            elif definition.repeatable:
                values["action"] = "append"
            group.addoption(
                *definition.flags, dest=definition.ini, help=_help(definition), **values
            )
            parser.addini(
                definition.ini, f"the same as {definition.flag}", type="string", default=None
            )
    parser.addini("kwait_plain_markers", _PLAIN_MARKERS_HELP, type="bool", default=False)


# First: before conftests of a wrong rootdir are loaded.
@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> None:
    """Refuse a run whose rootdir was taken from an option's value."""
    if any(
        name.startswith("--") and not value.startswith("-") and Path(value).exists()
        for name, value in pairwise(args)
    ) or any(argument.startswith("@") for argument in args):
        from pytest_kwait.plugin.settings import check_rootdir

        check_rootdir(early_config, parser, args)


# First: other plugins may ask for markers and settings when they are configured.
@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the markers; activate the plugin if any setting is given."""
    from pytest_kwait.framework.wait_names import WAIT_NAMES

    for line in (KWAIT_MARKER, *MARKERS, *SKIP_MARKERS):
        config.addinivalue_line("markers", line)
    if _has_plain_markers(config):
        for line in MARKERS:
            name = line.partition(":")[0]
            plain = name.removeprefix("kwait_")
            config.addinivalue_line("markers", f"{plain}: the same as {name}.")
    if config.getoption("markers") and config.get_verbosity() <= 0:
        config.addinivalue_line(
            "markers",
            "wait_for_...(*args, **options): before the test starts, wait as the fixture of that "
            f"name does; {len(WAIT_NAMES)} markers: pytest --markers -v lists them.",
        )
    elif config.getoption("markers"):
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
    running_test = config.stash[running_test_key] = RunningTest()
    config.pluginmanager.register(running_test, RunningTest.__module__)
    _register_fixtures(config)
    if _is_configured(config):
        activate(config)


def _register_fixtures(config: pytest.Config) -> None:
    """Register the fixtures; one of a conftest or test module overrides ours of its name."""
    from pytest_kwait.framework.wait_names import WAIT_NAMES
    from pytest_kwait.plugin import fixtures

    pluginmanager = config.pluginmanager
    if pluginmanager.register(fixtures, fixtures.__name__) is None:
        return  # switched off
    shows_all = config.getoption("showfixtures")
    if not (shows_all or config.getoption("show_fixtures_per_test")):
        waits = fixtures.make_wait_fixtures(WAIT_NAMES)
    elif shows_all and config.get_verbosity() <= 0:
        # One stands for all.
        waits = fixtures.make_wait_fixtures(("wait_for",), lists_family=True)
    else:
        waits = fixtures.make_wait_fixtures(WAIT_NAMES, lists_family=config.get_verbosity() <= 0)
    pluginmanager.register(waits, "kwait-wait-fixtures")


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


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Activate the plugin if an earlier test has imported a wait."""
    if _ENGINE in sys.modules:
        activate(item.config)


def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> None:
    """Activate the plugin for a fixture that a running test requests by `getfixturevalue`."""
    if is_fixture_name(fixturedef.argname):
        activate(request.config)


def _has_plain_markers(config: pytest.Config) -> bool:
    try:
        plain: bool = config.getini("kwait_plain_markers")
    except (TypeError, ValueError, pytest.UsageError) as error:
        raise pytest.UsageError(f"{error}: kwait_plain_markers takes true or false") from None
    return plain


def _is_configured(config: pytest.Config) -> bool:
    """Return whether a setting is given anywhere, valid or not, or the run has workers."""
    if config.getoption("dist", "no") != "no" or hasattr(config, "workerinput"):
        return True
    if any(name.startswith("KWAIT_") or name == "KUBECONFIG" for name in os.environ):
        return True
    if any(config.getoption(definition.ini) is not None for definition in OPTIONS):
        return True
    names = (definition.ini for definition in OPTIONS)
    if config.inipath is None or config.inipath.suffix != ".toml":
        return any(config.getini(name) for name in names)
    from pytest_kwait.plugin.ini_values import read_ini_values

    return any(value is not None for value in read_ini_values(config, names).values())


def _refuse_values_of_switches(config: pytest.Config | None) -> None:
    """Refuse `--kwait-no-janitor`; argparse's own message does not say what is valid."""
    if config is None:
        return
    try:
        addopts = config.getini("addopts")
    except ValueError:
        addopts = []  # registered before pytest has read its ini file
    extra = os.environ.get("PYTEST_ADDOPTS", "").split()
    given = (*config.invocation_params.args, *addopts, *extra)
    if any(str(argument).startswith("--kwait-") and "=" in str(argument) for argument in given):
        from pytest_kwait.plugin.settings import check_switches

        check_switches([str(argument) for argument in given])


def _help(definition: SettingDefinition[Any]) -> str:
    default = definition.default
    shown = "" if default in (None, {}, ()) else f" [{_format_default(default)}]"
    return f"{definition.short_help}{shown}".replace("%", "%%")


def _format_default(default: object) -> str:
    if isinstance(default, bool):
        return "on" if default else "off"
    if isinstance(default, tuple):
        return ",".join(default)
    return f"{default:g}" if isinstance(default, float) else str(default)
