"""What `/configz` and `/flagz` show."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pytest_kwait.wait import format_duration

from .configuration import encode
from .flags import PROGRAM

if TYPE_CHECKING:
    from .configuration import Configuration
    from .flags import Flags

__all__ = ["configz", "flagz"]


def configz(configuration: Configuration) -> tuple[str, bytes]:
    """Return the configuration in force, as JSON.

    Source: component-base configz/configz.go.
    """
    content = json.dumps({"componentconfig": encode(configuration)}, separators=(",", ":"))
    return "application/json", content.encode()


def flagz(flags: Flags) -> tuple[str, bytes]:
    """Return the flags in force, as text for people.

    Source: apiserver pkg/server/flagz/flagz.go.
    """
    lines = [f"{name}: {_shown(value)}" for name, value in flags.pairs()]
    head = ["", f"{PROGRAM} flagz", "For people to read: the form may change."]
    return "text/plain; charset=utf-8", "\n".join([*head, *lines, ""]).encode()


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return f"[{','.join(value)}]"
    return format_duration(value) if isinstance(value, float) else str(value)
