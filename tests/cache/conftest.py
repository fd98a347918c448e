"""Informers that end with their test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait import cache
from tests.cache.fakes import PATIENCE, pods_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def informer_of() -> Iterator[Callable[..., cache.SharedInformer]]:
    """Make informers of a session's pods, which are stopped and joined at the end."""
    made: list[cache.SharedInformer] = []

    def informer_of(session: Any, **options: Any) -> cache.SharedInformer:
        made.append(cache.SharedInformer(pods_of(session), **options))
        return made[-1]

    yield informer_of
    for informer in made:
        informer.stop()
        assert informer.join(PATIENCE)
