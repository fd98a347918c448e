"""What pods may do in the namespaces of a run: the level that the server holds them to."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from pytest_kwait.errors import InvalidArgument

__all__ = ["LEVELS", "PodSecurity", "parse_pod_security"]

LEVELS = ("privileged", "baseline", "restricted")

_ENFORCE = "pod-security.kubernetes.io/enforce"
_KUBERNETES_VERSION = re.compile(r"latest|v1\.(0|[1-9][0-9]{0,3})")


class PodSecurity(NamedTuple):
    """A level of the Pod Security Standards, as PodSecurity admission enforces it.

    Args:
        level: one of `LEVELS`.
        version: of which Kubernetes release, `latest` or `v1.30`; empty for the server's default.
    """

    level: str
    version: str = ""

    @property
    def labels(self) -> dict[str, str]:
        """The labels of a namespace that is held to it.

        Source: pod-security-admission/api/constants.go.
        """
        labels = {_ENFORCE: self.level}
        if self.version:
            labels[f"{_ENFORCE}-version"] = self.version
        return labels


def parse_pod_security(value: Any, what: str, source: str | None = None) -> PodSecurity:
    """Return a level from `LEVEL` or `LEVEL:VERSION`.

    Args:
        value: what was given.
        what: what it was given for.
        source: where it came from; None for a call's argument.

    Raises:
        InvalidArgument: it is neither.
    """
    if isinstance(value, PodSecurity):
        return value
    level, colon, version = value.partition(":") if isinstance(value, str) else ("", "", "")
    if level not in LEVELS or (colon and not _KUBERNETES_VERSION.fullmatch(version)):
        valid = (
            f"use {', '.join(LEVELS[:-1])} or {LEVELS[-1]}, and :VERSION behind it for the "
            "standard of one release, for example restricted:v1.30 or restricted:latest"
        )
        raise InvalidArgument(what, value, valid, source)
    return PodSecurity(level, version)
