"""How strictly a namespace holds its pods, as its labels say.

Source: k8s.io/pod-security-admission api/helpers.go, api/constants.go.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.simulator.api_errors import FieldError, invalid_value

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["LABEL_PREFIX", "LEVELS", "Level", "Policy", "parse_policy"]

LABEL_PREFIX = "pod-security.kubernetes.io/"
"""What the labels begin with."""

LEVELS = ("privileged", "baseline", "restricted")
"""From everything allowed to as little as possible."""

_VERSION = re.compile(r"v1\.(0|[1-9][0-9]*)")


class Level(NamedTuple):
    """A set of rules.

    Args:
        name: one of `LEVELS`.
        minor: as of which minor version of Kubernetes; None is the latest.
    """

    name: str
    minor: int | None = None

    def __str__(self) -> str:
        return f"{self.name}:{'latest' if self.minor is None else f'v1.{self.minor}'}"

    def is_stricter_than(self, other: Level) -> bool:
        """Whether its rules are more, versions aside."""
        return LEVELS.index(self.name) > LEVELS.index(other.name)


class Policy(NamedTuple):
    """What a namespace refuses, notes and warns of."""

    enforce: Level = Level("privileged")
    audit: Level = Level("privileged")
    warn: Level = Level("privileged")


def parse_policy(labels: Mapping[str, str]) -> tuple[Policy, list[FieldError]]:
    """The policy that a namespace's labels ask for, and what is wrong with them.

    An enforced level that is none counts as `restricted`, a version that is none as the latest.
    """
    errors: list[FieldError] = []

    def level(mode: str, otherwise: str) -> str:
        label = f"{LABEL_PREFIX}{mode}"
        given = labels.get(label, "privileged")
        if given in LEVELS:
            return given
        text = f"must be one of {', '.join(LEVELS)}"
        errors.append(invalid_value(f"metadata.labels[{label}]", given, text))
        return otherwise

    def version(mode: str) -> int | None:
        label = f"{LABEL_PREFIX}{mode}-version"
        given = labels.get(label, "latest")
        found = _VERSION.fullmatch(given)
        if given != "latest" and found is None:
            text = 'must be "latest" or "v1.x"'
            errors.append(invalid_value(f"metadata.labels[{label}]", given, text))
        return int(found[1]) if found is not None else None

    enforce = Level(level("enforce", "restricted"), version("enforce"))
    valid = labels.get(f"{LABEL_PREFIX}enforce") in LEVELS
    audit = Level(level("audit", "privileged"), version("audit"))
    warn = Level(level("warn", "privileged"), version("warn"))
    if f"{LABEL_PREFIX}warn" not in labels and valid and enforce.is_stricter_than(warn):
        own = f"{LABEL_PREFIX}warn-version" in labels
        warn = Level(enforce.name, warn.minor if own else enforce.minor)
    return Policy(enforce, audit, warn), errors
