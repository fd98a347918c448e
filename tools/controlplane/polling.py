"""Polling and sleeping: the only module of this folder that does either."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def poll_until(done: Callable[[], bool], patience: float, pause: float = 0.05) -> bool:
    """Poll until `done` returns True; return whether it did within `patience` seconds."""
    deadline = time.monotonic() + patience  # noqa: TID251 - a tool, outside of the product
    while not done():
        if time.monotonic() > deadline:  # noqa: TID251
            return False
        sleep(pause)
    return True


def sleep(seconds: float) -> None:
    """Sleep."""
    time.sleep(seconds)  # noqa: TID251
