"""Values in messages as the server's own types write them: fields in their order, none sorted."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["Written"]


class Written:
    """A value that a message shows field by field in the order of its Go type.

    Args:
        value: what JSON can write.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __str__(self) -> str:
        return json.dumps(self.value, separators=(",", ":"), ensure_ascii=False)
