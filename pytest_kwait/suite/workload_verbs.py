"""Verbs that wait: what is scaled, restarted, replaced, made or deleted is so when they return."""

from __future__ import annotations

import math
from typing import Any, cast

from pytest_kwait.apimachinery.durations import Duration, to_seconds
from pytest_kwait.errors import WaitTimeout
from pytest_kwait.framework.registry import VERBS
from pytest_kwait.suite.bound_wait import BoundWait
from pytest_kwait.suite.config.settings import DEFAULT_SOURCE
from pytest_kwait.suite.place import NamespacedClient

__all__ = ["WorkloadVerbs"]

_LIMIT_REACHED = 0.5
"""Seconds left of a test's limit at which something was ended by it."""


class WorkloadVerbs(NamespacedClient):
    """`scale`, `restart`, `rolling_update` and `delete_and_wait`, with the options of waits."""

    def scale(self, target: str, replicas: int, **options: Any) -> dict[str, Any]:
        """Scale an object; return it once it has exactly so many pods, all Running and ready.

        Args:
            target: `deployment/web`, `statefulset/web`, `rs/web`, `rc/web` or a custom resource.
            replicas: how many pods; 0 or more.
            **options: `namespace`, and the options of every wait.

        Raises:
            ApiError: it is not there, or the server refuses.
            InvalidArgument: an argument that cannot be meant, or a kind that has no scale.
            WaitFailed: it can no longer come.
            WaitTimeout: it did not come within the limit (`controlled_pods`).
        """
        return cast("dict[str, Any]", self._verb("scale")(target, replicas, **options))

    def restart(self, target: str, **options: Any) -> dict[str, Any]:
        """Have all pods of a workload replaced; return it once that is rolled out.

        Args:
            target: `deployment/web`, `statefulset/web` or `daemonset/web`.
            **options: `namespace`, and the options of every wait.

        Raises:
            ApiError: it is not there, or the server refuses.
            InvalidArgument: an argument that cannot be meant, or a workload that cannot be
                restarted.
            WaitFailed: it can no longer come.
            WaitTimeout: it did not come within the limit (`deployment`).
        """
        return cast("dict[str, Any]", self._verb("restart")(target, **options))

    def rolling_update(
        self, target: str, update_period: Duration = 60.0, *, strict: bool = False, **options: Any
    ) -> list[dict[str, Any]]:
        """Delete the pods of a controller one by one; return those that came in their place.

        All of it ends before the test's own limit, pauses included.

        Args:
            target: `rc/web`, or any other controller of pods.
            update_period: the pause after each pod; 0 or more.
            strict: whether each replacement must be ready before the next deletion.
            **options: `within`, the limit of all of it, `namespace`, and the options of every wait.
                Unless they are set, what is back is polled for every 5 s; with `strict` it is
                watched.

        Raises:
            ApiError: the controller is not there, or the server refuses.
            InvalidArgument: an argument that cannot be meant, or pauses that take too long.
            WaitFailed: the controller was deleted meanwhile, or with `strict` a replacement is
                stuck.
            WaitTimeout: the count, or a replacement, did not come within the limit
                (`rolling_update`).
        """
        terms = self._terms()
        if not strict and terms.settings.source("mode") == DEFAULT_SOURCE:
            options.setdefault("mode", "poll")
        if terms.settings.source("poll") == DEFAULT_SOURCE:
            options.setdefault("poll", terms.timeouts["rolling_update_poll"])
        allowance = terms.allowance()
        if allowance is not None:
            options["within"] = _shorter_limit(options.get("within"), allowance.seconds)
        try:
            replaced = self._verb("rolling_update")(target, update_period, strict=strict, **options)
        except WaitTimeout as error:
            left = terms.allowance()
            if (
                left is not None
                and left.seconds < _LIMIT_REACHED
                and not getattr(error, "__notes__", ())
            ):
                error.add_note(f"all of it had to end before {left.reason}")
            raise
        return cast("list[dict[str, Any]]", replaced)

    def delete_and_wait(self, target: str, **options: Any) -> None:
        """Delete an object; return once it is gone, for a controller with all of its pods.

        Args:
            target: `kind/name`, in any of the names that kubectl knows a kind by.
            **options: `grace_period`, `propagation`, `namespace`, and the options of every wait.

        Raises:
            ApiError: it is not there (status 404), or the server refuses.
            InvalidArgument: an argument that cannot be meant.
            WaitTimeout: something is left at the limit (`pod_deletion`).
        """
        self._verb("delete_and_wait")(target, **options)

    def _verb(self, name: str) -> BoundWait:
        return BoundWait(VERBS[name], self._terms())


def _shorter_limit(given: Duration | None, left: float) -> Duration:
    """Return the shorter of a limit and what is left, in tenths, for the sake of messages."""
    left = max(math.floor(left * 10) / 10, 0.1)
    return left if given is None else min(to_seconds(given, what="within", allow_zero=False), left)
