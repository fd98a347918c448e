"""Errors of the control plane commands, and their exit codes."""

from __future__ import annotations

FAILED = 1
NOT_RUNNING = 3
UNAVAILABLE = 69


class UnavailableError(Exception):
    """A requirement is missing on this machine; the message names it and how to install it."""


class BrokenError(Exception):
    """All requirements are met, but the cluster did not become ready."""
