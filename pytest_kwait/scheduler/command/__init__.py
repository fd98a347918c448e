"""The command `kwait-scheduler`.

It has the flags, the component configuration, the server of health checks and metrics with its
authentication and authorization, logging, and the start order of the parts. Neither the rest of
the scheduler nor the pytest plugin imports this package.

Source: cmd/kube-scheduler.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.field_errors import aggregate_errors
from pytest_kwait.errors import KwaitError

if TYPE_CHECKING:
    from collections.abc import Iterable


class CommandError(KwaitError):
    """A fatal error of the program; the text is its one line on stderr."""


def aggregate(errors: Iterable[object]) -> CommandError:
    """Combine errors into one."""
    return CommandError(aggregate_errors(errors))


def expand_home(path: str | Path) -> Path:
    """Return the path of a flag with `~` and `~user` at its start expanded.

    Raises:
        CommandError: there is no such user.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise CommandError(f"open {path}: no such user") from None
