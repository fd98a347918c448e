"""Images that cannot be had.

Source: the reasons are those of kubernetes/pkg/kubelet/images/types.go; what the runtimes and
registries say behind them has no list, so only what is known to be final counts as final.
"""

from __future__ import annotations

from typing import Any

from pytest_kwait.engine.container_states import current_state
from pytest_kwait.engine.tally import Doom
from pytest_kwait.engine.verdicts import Patience

__all__ = ["image_doom"]

_REASONS = frozenset(
    {
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)

_PASSING = (
    "no such host",
    "i/o timeout",
    "timed out",
    "timeout exceeded",
    "tls handshake timeout",
    "deadline exceeded",
    "connection refused",
    "connection reset",
    "network is unreachable",
    "no route to host",
    "server misbehaving",
    "temporary failure",
    "unexpected eof",
    "too many requests",
    "toomanyrequests",
    "rate limit",
    "status code 5",
    "500 internal server error",
    "502 bad gateway",
    "503 service",
    "504 gateway",
    "service unavailable",
    "pull qps exceeded",
)

_FINAL = (
    "manifest unknown",
    "name unknown",
    "no match for platform",
    "pull access denied",
    "access denied",
    "authorization failed",
    "authentication required",
    "insufficient_scope",
    "unauthorized",
    "403 forbidden",
    "invalid reference format",
    ": not found",
    "code = notfound",
    "repository does not exist",
    "does not exist or no pull access",
)


def image_doom(status: dict[str, Any], before: Doom | None) -> Doom | None:
    """Return the doom of a container whose image cannot be had; None for any other.

    Args:
        status: the container's status.
        before: what its pod was doomed by before: while the kubelet pauses, its message may say
            no more than that it does, and what the last try said still holds.
    """
    state, facts = current_state(status)
    reason = facts.get("reason") or ""
    if state != "waiting" or reason not in _REASONS:
        return None
    message = " ".join((facts.get("message") or "").split())
    patience = _patience(reason, message)
    if patience is None:
        if before is not None and before.reason.split(":")[0] in _REASONS:
            return before
        patience = Patience.LONG
    return Doom(f"{reason}: {message}" if message else reason, patience)


def _patience(reason: str, message: str) -> Patience | None:
    """Return how sure a message is; None where it says nothing either way."""
    if reason == "InvalidImageName":
        return Patience.SHORT
    text = message.lower()
    if any(phrase in text for phrase in _PASSING):
        return Patience.LONG
    if any(phrase in text for phrase in _FINAL):
        return Patience.SHORT
    return None
