"""Errors of the control plane commands, and their exit codes."""

from __future__ import annotations

FAILED = 1
NOT_RUNNING = 3
UNAVAILABLE = 69


class UnavailableError(Exception):
    """Something is missing on this machine; the text says what, and how to get it."""


class BrokenError(Exception):
    """Everything was there, but the cluster did not come up."""
