"""Proxies that count requests and break connections, shared with the suite of faults."""

from __future__ import annotations

from e2e.faults.conftest import short_timeouts, trials

__all__ = ["short_timeouts", "trials"]
