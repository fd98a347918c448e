"""Finalizers of namespaces: names of their own domain, or one of the server's.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go, validateFinalizerName.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import invalid_value
from pytest_kwait.simulator.validation.formats import label_key_texts

if TYPE_CHECKING:
    from pytest_kwait.simulator.api_errors import FieldError

__all__ = ["validate_finalizer_name"]

_STANDARD_FINALIZER_NAMES = ("kubernetes", "orphan", "foregroundDeletion")


def validate_finalizer_name(name: str, path: str) -> list[FieldError]:
    """Why `name` is no name of a finalizer."""
    texts = label_key_texts(name)
    if "/" not in name and name not in _STANDARD_FINALIZER_NAMES:
        texts.append("name is neither a standard finalizer name nor is it fully qualified")
    return [invalid_value(path, name, text) for text in texts]
