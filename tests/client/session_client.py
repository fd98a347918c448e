from __future__ import annotations

from typing import Any


class SessionClient:
    """Stands for an `ApiClient`; all that is asked of it is its session."""

    def __init__(self, session: Any) -> None:
        self.session = session
