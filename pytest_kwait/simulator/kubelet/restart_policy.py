"""Restart policies and exit code rules of containers, and the back-off between retries.

The back-off is kept by key. It doubles with every retry, and resets after a quiet time. Image
pulls use it too.

Source: pkg/api/v1/pod/util.go, `ContainerShouldRestart`,
`FindMatchingContainerRestartRule`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kwait.simulator.objects import Obj

# Seconds, for restarts and image pulls.
# Source: kubelet.go, `imageBackOffPeriod`, `MaxContainerBackOff`.
CRASH_BACKOFF_INITIAL = 10.0
CRASH_BACKOFF_MAX = 300.0
RESTARTING_ALL = "RestartingAllContainers"
"""The reason of containers that are removed because all containers restart."""

_RESTART_ALL = "RestartAllContainers"


@dataclass(slots=True)
class _Entry:
    delay: float
    at: float


class KeyedBackoff:
    """Back-off delays by key, in unscaled seconds.

    Args:
        scale: real seconds per unscaled second.
        first: the first delay.
        most: the longest delay.

    Source: client-go, util/flowcontrol/backoff.go.
    """

    def __init__(
        self, scale: float, first: float = CRASH_BACKOFF_INITIAL, most: float = CRASH_BACKOFF_MAX
    ) -> None:
        self._scale = scale
        self._first = first
        self._most = most
        self._entries: dict[str, _Entry] = {}

    def delay(self, key: str) -> float:
        """Return the current delay in unscaled seconds; 0 before the first retry."""
        entry = self._entries.get(key)
        return entry.delay if entry is not None else 0.0

    def remaining(self, key: str, since: float, now: float) -> float:
        """Return the real seconds of the delay that remain at `now`, counted from `since`."""
        entry = self._entries.get(key)
        if entry is None or since - entry.at > 2 * self._most * self._scale:
            return 0.0
        return max(0.0, since + entry.delay * self._scale - now)

    def remaining_since_update(self, key: str, now: float) -> float:
        """Return the real seconds that remain, counted from the last increase."""
        entry = self._entries.get(key)
        return self.remaining(key, entry.at, now) if entry is not None else 0.0

    def increase(self, key: str, at: float) -> None:
        """Double the delay, or reset it after a quiet time."""
        entry = self._entries.get(key)
        if entry is None or at - entry.at > 2 * self._most * self._scale:
            self._entries[key] = _Entry(self._first, at)
        else:
            entry.delay = min(entry.delay * 2, self._most)
            entry.at = at

    def forget(self, prefix: str) -> None:
        """Delete the keys with a prefix."""
        for key in [key for key in self._entries if key.startswith(prefix)]:
            del self._entries[key]


def format_go_seconds(seconds: float) -> str:
    """Format whole seconds as a Go duration: `10s`, `1m20s`, `5m0s`."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def is_sidecar(container: Mapping[str, object]) -> bool:
    """Return whether an init container is a sidecar, which keeps running."""
    return container.get("restartPolicy") == "Always"


def _find_rule(container: Obj, exit_code: int) -> str:
    """Return the action of the first rule that matches the exit code; empty if none does."""
    if not container.get("restartPolicy"):
        return ""
    for rule in container.get("restartPolicyRules") or ():
        codes = rule.get("exitCodes") or {}
        listed = exit_code in (codes.get("values") or ())
        if listed == (codes.get("operator") == "In"):
            action: str = rule.get("action") or ""
            return action
    return ""


def restarts_all_containers(container: Obj, exit_code: int) -> bool:
    """Return whether an exit of the container restarts all containers."""
    return _find_rule(container, exit_code) == _RESTART_ALL


def has_restart_all_rule(pod: Obj) -> bool:
    """Return whether a rule of the pod restarts all containers."""
    spec = pod["spec"]
    return any(
        rule.get("action") == _RESTART_ALL
        for container in [*(spec.get("initContainers") or ()), *spec["containers"]]
        for rule in container.get("restartPolicyRules") or ()
    )


def _is_init(pod: Obj, container: Obj) -> bool:
    return any(
        init_container["name"] == container["name"]
        for init_container in pod["spec"].get("initContainers") or ()
    )


def should_restart(pod: Obj, container: Obj, exit_code: int) -> bool:
    """Return whether a container restarts after an exit."""
    if _find_rule(container, exit_code):
        return True
    if exit_code == 0 and _is_init(pod, container) and not is_sidecar(container):
        # Successful init containers never restart, whatever the pod's policy.
        return False
    policy = container.get("restartPolicy") or pod["spec"].get("restartPolicy") or "Always"
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def restarts_after_probe_failure(pod: Obj, container: Obj) -> bool:
    """Return whether a container restarts after a failed probe; exit code rules do not apply.

    Source: kuberuntime_manager.go, `computePodActions`.
    """
    policy = container.get("restartPolicy") or pod["spec"].get("restartPolicy") or "Always"
    return bool(policy != "Never")
