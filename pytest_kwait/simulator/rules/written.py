"""Values in messages as the server's own types write them: fields in their order, none sorted."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

__all__ = ["Written"]


@dataclass(frozen=True, slots=True)
class Written:
    """A value that a message shows field by field in the order of its Go type."""

    value: Any

    def __str__(self) -> str:
        return json.dumps(self.value, separators=(",", ":"), ensure_ascii=False)
