"""Terminal states of CustomResourceDefinitions: names taken by another definition.

Source: apiextensions-apiserver pkg/controller/status/naming_controller.go.
"""

from __future__ import annotations

from typing import Any

from pytest_kwait.engine.object_counter import TerminalState
from pytest_kwait.engine.verdicts import Patience

__all__ = ["detect_names_conflict"]


def detect_names_conflict(definition: dict[str, Any]) -> TerminalState | None:
    """Return why a definition's names are refused; None if they are not.

    It may pass: the definition that has the names may be deleted.
    """
    for condition in (definition.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "NamesAccepted" and condition.get("status") == "False":
            parts = (condition.get("reason"), condition.get("message"))
            why = ": ".join(" ".join(part.split()) for part in parts if part)
            text = f"its names are not accepted: {why or 'no reason is given'}"
            return TerminalState(text, Patience.LONG)
    return None
