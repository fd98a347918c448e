"""Paths of files in volumes.

Source: pkg/apis/core/validation/validation.go, validateLocalDescendingPath,
ValidateLocalNonReservedPath, validatePathNoBacksteps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kwait.simulator.findings import Findings

__all__ = ["FILE_MODE", "check_descending", "check_mode", "check_no_backsteps", "check_unreserved"]

FILE_MODE = "must be a number between 0 and 0777 (octal), both inclusive"
_MOST = 0o777


def check_no_backsteps(path: str, at: str, found: Findings) -> None:
    """The path does not climb."""
    if ".." in path.split("/"):
        found.invalid(at, path, "must not contain '..'")


def check_descending(path: str, at: str, found: Findings) -> None:
    """The path is relative, and does not climb."""
    if path.startswith("/"):
        found.invalid(at, path, "must be a relative path")
    check_no_backsteps(path, at, found)


def check_unreserved(path: str, at: str, found: Findings) -> None:
    """The path descends, and its first name is none that kubelets use themselves."""
    check_descending(path, at, found)
    if path.startswith("..") and not path.startswith("../"):
        found.invalid(at, path, "must not start with '..'")


def check_mode(mode: int | None, at: str, found: Findings) -> None:
    """The permissions of a file are nothing but permissions."""
    if mode is not None and not 0 <= mode <= _MOST:
        found.invalid(at, mode, FILE_MODE)
