"""Parts of pytest that it does not document, each read for a reason; none is replaced.

tests/plugin/test_internals.py holds each of them, and fails with a pytest that has changed it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence


def find_fixtures(node: pytest.Item, name: str) -> Sequence[pytest.FixtureDef[Any]]:
    """Return the fixtures of a name that a test sees, those of plugins first.

    `request` has a value alone, and only once the setup has begun: markers must know before
    whether a project overrides a fixture of ours.
    """
    manager: Any = node.session._fixturemanager
    return manager.getfixturedefs(name, node) or ()


def has_own_fixture(item: pytest.Item, name: str) -> bool:
    """Return whether a test requests a fixture of a name, itself or by others, of one plugin.

    `item.fixturenames` has the names, but not whose fixtures they are.
    """
    requested = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
    return len(requested.get(name, ())) == 1


def request_of(item: pytest.Item) -> pytest.FixtureRequest | None:
    """Return the request of a test; None if it takes no fixtures.

    A fixture of a wider scope may wait by limits that a fixture of the suite gives.
    """
    return getattr(item, "_request", None)


def finish_fixture(fixture: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> None:
    """Call the finalizers of a fixture that are left; raises what they raise.

    pytest reports an error in a teardown to plugins once all its fixtures are gone, and the
    namespaces of the test with them; a finalizer that calls the others gets the error itself.
    """
    fixture.finish(cast("Any", request))


def tear_down(session: pytest.Session, nextitem: pytest.Item | None) -> None:
    """Tear down the fixtures that the next test does not use; None for all.

    The hook `pytest_runtest_teardown` can be called once for each setup of a test.
    """
    session._setupstate.teardown_exact(nextitem)


def prepare_rerun(item: pytest.Item) -> None:
    """Forget what a test has left of its last run, which pytest makes once for each test."""
    # Captured output would be in the reports of all further runs.
    item._report_sections.clear()
    if isinstance(item.parent, pytest.Class) and vars(item).get("_instance", item) is None:
        # pytest before 8.3 leaves the method of a TestCase without one after a run.
        del vars(item)["_instance"]


def run_phases(item: pytest.Item, nextitem: pytest.Item | None) -> list[pytest.TestReport]:
    """Run setup, call and teardown of a test; return the reports instead of logging them.

    As in pytest-rerunfailures; pytest's hook around it logs each of them.
    """
    from _pytest.runner import runtestprotocol

    return runtestprotocol(item, log=False, nextitem=nextitem)
