"""Whether tests use the plugin: the names of its markers and fixtures."""

from __future__ import annotations

import re

import pytest

from pytest_kwait.plugin.internals import find_fixtures


def is_built_on_library(node: pytest.Item, name: str) -> bool:
    """Return whether a fixture is the plugin's, or overrides it and requests it.

    A project's own fixture of the same name has nothing to do with this plugin.
    """
    _, *overrides = find_fixtures(node, name)
    return all(name in override.argnames for override in overrides)


def marker_names(config: pytest.Config, *names: str) -> tuple[str, ...]:
    """Return the names of markers: `kwait_…`, and the plain ones where the ini file wants them."""
    ours = tuple(f"kwait_{name}" for name in names)
    return (*ours, *names) if config.getini("kwait_plain_markers") else ours


def registered_markers(config: pytest.Config) -> set[str]:
    """Return the names of the markers that pytest knows."""
    registered: list[str] = config.getini("markers")
    return {re.split(r"\W", line)[0] for line in registered}


def is_misspelt_wait(config: pytest.Config, marker: str) -> bool:
    """Return whether a marker is named as a wait, but neither ours nor registered by the suite."""
    return marker.startswith("wait_for_") and marker not in registered_markers(config)


def has_marker(node: pytest.Item | pytest.Collector, *names: str) -> bool:
    """Return whether a node has one of these markers of ours, named without `kwait_`."""
    return any(map(node.get_closest_marker, marker_names(node.config, *names)))


def is_fixture_name(name: str) -> bool:
    """Return whether a fixture of the plugin has this name; a project's own may override it."""
    from pytest_kwait.framework.wait_names import WAIT_NAMES

    return name in WAIT_NAMES or name.startswith("kwait")


def uses_plugin(node: object) -> bool:
    """Return whether a test uses a fixture or marker of the plugin."""
    if not isinstance(node, pytest.Item):
        return False
    marks = {mark.name for mark in node.iter_markers()}
    # These say nothing of a test that does not use the cluster.
    marks.difference_update(("kwait_serial", "kwait_disruptive", "kwait_slow"))
    if marks.intersection(marker_names(node.config, "manifests")):
        return True
    names = (*getattr(node, "fixturenames", ()), *marks)
    if any(map(is_fixture_name, names)):
        return True
    return any(is_misspelt_wait(node.config, name) for name in marks)
