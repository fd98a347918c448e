"""The pytest plugin: hooks, options, fixtures and markers over the layers below.

At startup pytest knows only the hooks of `startup`, which registers the rest once a run needs it.
Each part can be switched off, for example with `-p no:pytest_kwait.plugin.summary`.

Contents: code that needs pytest. Everything else belongs to `suite`.
"""

from pytest_kwait.plugin.startup import (
    pytest_addhooks,
    pytest_addoption,
    pytest_collection_finish,
    pytest_configure,
    pytest_fixture_setup,
    pytest_load_initial_conftests,
    pytest_make_collect_report,
    pytest_runtest_setup,
)

__all__ = [
    "pytest_addhooks",
    "pytest_addoption",
    "pytest_collection_finish",
    "pytest_configure",
    "pytest_fixture_setup",
    "pytest_load_initial_conftests",
    "pytest_make_collect_report",
    "pytest_runtest_setup",
]
