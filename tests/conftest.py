from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from pytest_kwait.engine.failure.redaction import SECRET_VALUES, SecretValues
from tests.forked_python import GC_THRESHOLDS
from tests.leftovers import nothing_is_left  # noqa: F401 - a fixture

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

# How fast a busy machine makes or runs an example says nothing about the code.
settings.register_profile(
    "thorough", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=100
)
settings.register_profile("kwait", settings.get_profile("thorough"), max_examples=25)
settings.load_profile("kwait")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the collected tests from the garbage collector, and have it run seldom.

    It would go through all of them while they are collected, and with each inner run's end; then
    through the data of simulated clusters, which takes a third of the time of their tests.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        gc.enable()


@pytest.fixture(autouse=True)
def forgotten_secrets() -> Iterator[None]:
    """No test knows the Secrets of another."""
    known = vars(SECRET_VALUES).copy()
    vars(SECRET_VALUES).update(vars(SecretValues()))
    yield
    vars(SECRET_VALUES).clear()
    vars(SECRET_VALUES).update(known)
