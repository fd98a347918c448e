"""What markers ask for before a test starts: manifests applied, waits done.

Fixtures come first and waits last, so that what a fixture of the user makes can be awaited.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from pytest_kwait.plugin.fixtures import bench_owner
from pytest_kwait.plugin.markers import InvalidMarker, check_markers
from pytest_kwait.plugin.waits import WAIT_NAMES

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_kwait.suite.bench import Bench
    from pytest_kwait.suite.bound_wait import BoundWait


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    """Have the fixtures made that the markers need, then apply and wait."""
    waits = [mark for mark in item.iter_markers() if mark.name in WAIT_NAMES]
    manifests = list(item.iter_markers_with_node("manifests"))
    if not (waits or manifests):
        return (yield)
    try:
        # Again: a hook of the user may have added markers since they were collected.
        check_markers(item)
    except InvalidMarker as error:
        pytest.fail(str(error), pytrace=False)
    assert isinstance(item, pytest.Function)  # noqa: S101 - check_markers saw to it
    needed = dict.fromkeys([*item.fixturenames, "kwait", *(mark.name for mark in waits)])
    item.fixturenames = list(needed)
    result = yield
    bench = cast("Bench", item.funcargs["kwait"])
    # The manifests of a bench that is shared by several tests were applied when it was made; what
    # only this test asks for is applied for this test.
    shared = set(bench_owner(item).listchain())
    for node, mark in reversed(manifests):
        if node not in shared:
            bench.apply(*mark.args)
    for mark in reversed(waits):
        cast("BoundWait", item.funcargs[mark.name])(*mark.args, **mark.kwargs)
    return result
