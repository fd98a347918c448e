from __future__ import annotations
from typing import Any

def learn(*args: Any) -> Any:
    return {}
