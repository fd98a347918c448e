"""The queue of orders, and the connection to the database that has it."""

from __future__ import annotations

import os
from typing import Any

QUEUE = "open-orders"
"""A stream; its consumer group `workers` gives each order to one worker."""


def connection() -> dict[str, Any]:
    """Return the arguments of a client of the database."""
    return {
        "host": os.environ["DATABASE_HOST"],
        "password": os.environ["DATABASE_PASSWORD"],
        "decode_responses": True,
        "socket_timeout": 5,
    }
