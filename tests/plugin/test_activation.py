"""The table of plugin objects: what is registered, what each has for itself."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest_kwait.plugin
from pytest_kwait.plugin.activation import PLUGINS
from pytest_kwait.plugin.run import run_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

_SETTINGS = ("--kwait-artifacts=art", "--kwait-report=report.json", "--kwait-cluster=existing")


def _sources() -> Iterator[str]:
    folder = Path(pytest_kwait.plugin.__file__).parent
    yield from (path.read_text() for path in sorted(folder.rglob("*.py")))


def test_each_object_is_registered_under_the_name_of_its_module(pytester: pytest.Pytester) -> None:
    config = pytester.parseconfigure(*_SETTINGS)
    for row in PLUGINS:
        module = import_module(f"pytest_kwait.plugin.{row.module}")
        plugin = run_of(config).find(getattr(module, row.factory))
        assert (plugin is not None) is row.is_needed(run_of(config))
        assert config.pluginmanager.get_plugin(module.__name__) is plugin


def test_an_object_that_is_switched_off_has_no_hooks_but_its_state(
    pytester: pytest.Pytester,
) -> None:
    from pytest_kwait.plugin.cleanup import Cleanup

    config = pytester.parseconfigure("-p", "no:pytest_kwait.plugin.cleanup", *_SETTINGS)
    assert not config.pluginmanager.hasplugin("pytest_kwait.plugin.cleanup")
    assert run_of(config).get(Cleanup).namespaces == []


def test_two_runs_in_a_process_share_no_object(pytester: pytest.Pytester) -> None:
    first = pytester.parseconfigure(*_SETTINGS)
    second = pytester.parseconfigure(*_SETTINGS)
    assert run_of(first) is not run_of(second)
    assert run_of(first).id != run_of(second).id
    for row in PLUGINS:
        name = f"pytest_kwait.plugin.{row.module}"
        plugins = [config.pluginmanager.get_plugin(name) for config in (first, second)]
        assert plugins == [None, None] or plugins[0] is not plugins[1]


def test_state_is_in_objects_but_for_what_belongs_to_a_test() -> None:
    keys = [
        line for text in _sources() for line in text.splitlines() if "pytest.StashKey()" in line
    ]
    assert len(keys) <= 10, keys


def test_each_ordering_of_a_hook_has_its_reason() -> None:
    for text in _sources():
        for above, line in re.findall(r"(.*)\n(.*try(?:first|last)=True.*)", text):
            assert above.strip().startswith("#"), line
