"""Paths of files in volumes.

Source: pkg/apis/core/validation/validation.go, validateLocalDescendingPath,
ValidateLocalNonReservedPath, validatePathNoBacksteps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kwait.simulator.validation.findings import ErrorList

__all__ = [
    "FILE_MODE_MESSAGE",
    "validate_file_mode",
    "validate_local_descending_path",
    "validate_local_non_reserved_path",
    "validate_path_no_backsteps",
]

FILE_MODE_MESSAGE = "must be a number between 0 and 0777 (octal), both inclusive"
_MAX_FILE_MODE = 0o777


def validate_path_no_backsteps(path: str, at: str, found: ErrorList) -> None:
    """The path does not climb."""
    if ".." in path.split("/"):
        found.invalid(at, path, "must not contain '..'")


def validate_local_descending_path(path: str, at: str, found: ErrorList) -> None:
    """The path is relative, and does not climb."""
    if path.startswith("/"):
        found.invalid(at, path, "must be a relative path")
    validate_path_no_backsteps(path, at, found)


def validate_local_non_reserved_path(path: str, at: str, found: ErrorList) -> None:
    """The path descends, and its first name is none that kubelets use themselves."""
    validate_local_descending_path(path, at, found)
    if path.startswith("..") and not path.startswith("../"):
        found.invalid(at, path, "must not start with '..'")


def validate_file_mode(mode: int | None, at: str, found: ErrorList) -> None:
    """The permissions of a file are nothing but permissions."""
    if mode is not None and not 0 <= mode <= _MAX_FILE_MODE:
        found.invalid(at, mode, FILE_MODE_MESSAGE)
