"""Schemas of custom resources."""

from __future__ import annotations
from typing import Any
class Structure:
    selectable: tuple[str,...] = ()
    def decode(self, obj: Any, decoded: Any) -> Any: ...
    def validate(self, new: Any, old: Any = None) -> None: ...
