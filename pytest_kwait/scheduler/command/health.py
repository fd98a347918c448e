"""Health: named checks, and what `/healthz`, `/livez` and `/readyz` say of them.

Source: apiserver pkg/server/healthz/healthz.go.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kwait.errors import KwaitError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

__all__ = ["PING", "HealthCheck", "UnhealthyError", "format_health_report"]

_log = logging.getLogger(__name__)


class UnhealthyError(KwaitError):
    """A check did not pass; the text says why."""


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """A check.

    Args:
        name: its name, which is a path as well: `/healthz/<name>`.
        check: returns if it is passed; a `KwaitError` says why not.
    """

    name: str
    check: Callable[[], object]


PING = HealthCheck("ping", lambda: None)
"""Passed by whoever can answer; stands where there is nothing else to check."""


def format_health_report(
    name: str, checks: Sequence[HealthCheck], *, excluded: Collection[str] = (), verbose: bool
) -> tuple[int, str]:
    """Return the status and the text for all checks together.

    Args:
        name: of the endpoint, for example `healthz`.
        checks: what is checked; none is as good as a ping.
        excluded: the names of checks to leave out.
        verbose: whether to list the checks where all of them are passed; else they are listed only
            when one is not.
    """
    lines, failed, reasons = [], [], []
    checks = checks or [PING]
    for check in checks:
        if check.name in excluded:
            lines.append(f"[+]{check.name} excluded: ok")
            continue
        try:
            check.check()
        except KwaitError as error:
            # Everybody may look here; the reason is for who may look at the check itself.
            lines.append(f"[-]{check.name} failed: reason withheld")
            failed.append(check.name)
            reasons.append(f"[-]{check.name} failed: {error}")
        else:
            lines.append(f"[+]{check.name} ok")
    known = {check.name for check in checks}
    unknown = sorted(set(excluded) - known)
    if unknown:
        names = ",".join(f'"{one}"' for one in unknown)
        lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
    if failed:
        _log.info("%s check failed: %s\n%s", name, ",".join(failed), "\n".join(reasons))
        return 500, "\n".join([*lines, f"{name} check failed", ""])
    if verbose:
        return 200, "\n".join([*lines, f"{name} check passed", ""])
    return 200, "ok"
