"""Settings of the whole suite, as flags and constants of a Go suite are."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def kwait_timeouts() -> dict[str, str]:
    """Shorten limits of the timeout table: the limits of Go's `framework.TimeoutContext`."""
    return {"job": "5m", "deployment": "3m"}
