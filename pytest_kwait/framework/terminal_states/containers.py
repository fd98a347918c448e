"""Images that cannot be had.

Source: the reasons are those of kubernetes/pkg/kubelet/images/types.go; what the runtimes and
registries say behind them has no list, so only what is known to be final counts as final.
"""

from __future__ import annotations

from typing import Any

from pytest_kwait.engine.container_states import get_current_state
from pytest_kwait.engine.object_counter import TerminalState
from pytest_kwait.engine.verdicts import Patience

__all__ = ["detect_image_failure"]

_IMAGE_REASONS = frozenset(
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

_TRANSIENT_IMAGE_MESSAGES = (
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

_FINAL_IMAGE_MESSAGES = (
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


def detect_image_failure(
    status: dict[str, Any], before: TerminalState | None
) -> TerminalState | None:
    """Return the doom of a container whose image cannot be had; None for any other.

    Args:
        status: the container's status.
        before: what its pod was doomed by before: while the kubelet pauses, its message may say
            no more than that it does, and what the last try said still holds.
    """
    state, facts = get_current_state(status)
    reason = facts.get("reason") or ""
    if state != "waiting" or reason not in _IMAGE_REASONS:
        return None
    message = " ".join((facts.get("message") or "").split())
    patience = _image_patience(reason, message)
    if patience is None:
        if before is not None and before.reason.split(":")[0] in _IMAGE_REASONS:
            return before
        patience = Patience.LONG
    return TerminalState(f"{reason}: {message}" if message else reason, patience)


def _image_patience(reason: str, message: str) -> Patience | None:
    """Return how sure a message is; None where it says nothing either way."""
    if reason == "InvalidImageName":
        return Patience.SHORT
    text = message.lower()
    if any(phrase in text for phrase in _TRANSIENT_IMAGE_MESSAGES):
        return Patience.LONG
    if any(phrase in text for phrase in _FINAL_IMAGE_MESSAGES):
        return Patience.SHORT
    return None
