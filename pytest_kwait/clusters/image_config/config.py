"""The configuration of an image, whatever file it is read from.

Source: image-spec config.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_MAX_NAMED = 8


class ImageConfigError(ValueError):
    """An image's configuration cannot be read; the text is the reason, to follow a value."""


@dataclass(frozen=True)
class ImageConfig:
    """The part of an image's configuration that a container runtime uses.

    Args:
        entrypoint: the program with its first arguments.
        cmd: its default arguments; the program, without an entrypoint.
        env: the environment variables.
        workdir: the working directory.
        user: `USER[:GROUP]`, names or IDs; empty for root.
        stop_signal: the name or number of the signal that ends it; empty for `SIGTERM`.
    """

    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str = "/"
    user: str = ""
    stop_signal: str = ""


def format_names(names: Iterable[str]) -> str:
    """Return names for a message; "none" without any."""
    listed = list(names)
    more = ", …" if len(listed) > _MAX_NAMED else ""
    return ", ".join(listed[:_MAX_NAMED]) + more or "none"
