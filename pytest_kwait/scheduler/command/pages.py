"""What `/configz` and `/flagz` show."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pytest_kwait.scheduler.command.configuration import encode_configuration
from pytest_kwait.scheduler.command.flags import PROGRAM
from pytest_kwait.wait import format_duration

if TYPE_CHECKING:
    from pytest_kwait.scheduler.command.configuration import Configuration
    from pytest_kwait.scheduler.command.flags import Flags

__all__ = ["render_configz", "render_flagz"]


def render_configz(configuration: Configuration) -> tuple[str, bytes]:
    """Return the configuration in force, as JSON.

    Source: component-base configz/configz.go.
    """
    content = json.dumps(
        {"componentconfig": encode_configuration(configuration)}, separators=(",", ":")
    )
    return "application/json", content.encode()


def render_flagz(flags: Flags) -> tuple[str, bytes]:
    """Return the flags in force, as text for people.

    Source: apiserver pkg/server/flagz/flagz.go.
    """
    lines = [f"{name}: {_format_flag(value)}" for name, value in flags.pairs()]
    head = ["", f"{PROGRAM} flagz", "For people to read: the form may change."]
    return "text/plain; charset=utf-8", "\n".join([*head, *lines, ""]).encode()


def _format_flag(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return f"[{','.join(value)}]"
    return format_duration(value) if isinstance(value, float) else str(value)
