"""The `needs` marker and fixtures of `e2e/`, for suites that are compared and measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from e2e.conftest import capable as capable
from e2e.conftest import kubelets as kubelets
from e2e.fault_injection.conftest import faults as faults
from tests.forked_python import PRELOADED, stop_fork_server

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session", autouse=True)
def _fork_server() -> Iterator[None]:
    # First: objects of the last one are the garbage collector's no more.
    PRELOADED.insert(0, "conformance.forked_python_preload")
    yield
    stop_fork_server()
