"""Kubernetes end-to-end waits for pytest; names are resolved on first use (PEP 562)."""

from __future__ import annotations
