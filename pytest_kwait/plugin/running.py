"""The test that runs now: what shared benches and clients look up its settings and limits by."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["running_item"]

_item_key = pytest.StashKey[pytest.Item]()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Note the test from before its setup until after its teardown."""
    item.config.stash[_item_key] = item
    try:
        return (yield)
    finally:
        del item.config.stash[_item_key]


def running_item(config: pytest.Config) -> pytest.Item | None:
    """Return the test that runs now; None between tests."""
    return config.stash.get(_item_key, None)
