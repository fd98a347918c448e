"""What markers ask for before a test starts: manifests applied, waits done.

Fixtures come first and waits last, so that what a fixture of the user makes can be awaited.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from pytest_kwait.plugin.markers import InvalidMarker, check_markers
from pytest_kwait.plugin.namespaces import namespace_node
from pytest_kwait.plugin.waits import WAIT_NAMES

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_kwait.suite.bound_wait import BoundWait
    from pytest_kwait.suite.kwait import Kwait

_preconditions_key = pytest.StashKey["Preconditions"]()


class Preconditions:
    """What the markers of one test ask for.

    Args:
        item: the test.
    """

    def __init__(self, item: pytest.Item) -> None:
        self.waits = [mark for mark in item.iter_markers() if mark.name in WAIT_NAMES]
        self.manifests = list(item.iter_markers_with_node("manifests"))

    def __bool__(self) -> bool:
        return bool(self.waits or self.manifests)

    def meet(self, item: pytest.Function) -> None:
        """Apply and wait, with the fixtures of the test."""
        bench = cast("Kwait", item.funcargs["kwait"])
        # The manifests of a bench that several tests share were applied when it was made; what
        # only this test asks for is applied for this test.
        shared = set(namespace_node(item).listchain())
        for node, mark in reversed(self.manifests):
            if node not in shared:
                bench.apply(*mark.args)
        for mark in reversed(self.waits):
            cast("BoundWait", item.funcargs[mark.name])(*mark.args, **mark.kwargs)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Have the fixtures made that the markers need."""
    preconditions = Preconditions(item)
    if not preconditions:
        return
    try:
        # Again: a hook of the user may have added markers since they were collected.
        check_markers(item)
    except InvalidMarker as error:
        pytest.fail(str(error), pytrace=False)
    function = cast("pytest.Function", item)
    waits = (mark.name for mark in preconditions.waits)
    function.fixturenames = list(dict.fromkeys([*function.fixturenames, "kwait", *waits]))
    item.stash[_preconditions_key] = preconditions


@pytest.hookimpl(wrapper=True, tryfirst=True, specname="pytest_runtest_setup")
def pytest_runtest_setup_last(item: pytest.Item) -> Generator[None, None, None]:
    """Apply and wait once everything else of the setup is done."""
    yield
    if _preconditions_key in item.stash:
        item.stash[_preconditions_key].meet(cast("pytest.Function", item))
        del item.stash[_preconditions_key]
