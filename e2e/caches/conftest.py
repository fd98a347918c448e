"""Proxies that count requests and break connections, as the suite of faults has them."""

from __future__ import annotations

from e2e.faults.conftest import short_patience, trials

__all__ = ["short_patience", "trials"]
