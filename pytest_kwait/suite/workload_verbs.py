"""Verbs that wait: what is scaled, restarted, replaced, made or deleted is so when they return."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pytest_kwait.resources.catalogue import VERBS
from pytest_kwait.suite.bound_wait import BoundWait
from pytest_kwait.suite.place import Place
from pytest_kwait.suite.settings import DEFAULT

if TYPE_CHECKING:
    from pytest_kwait.wait.durations import Duration

__all__ = ["WorkloadVerbs"]


class WorkloadVerbs(Place):
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
        self, target: str, update_period: Duration = 60.0, **options: Any
    ) -> list[dict[str, Any]]:
        """Delete the pods of a controller one by one; return those that came in their place.

        Args:
            target: `rc/web`, or any other controller of pods.
            update_period: the pause after each pod; 0 or more.
            **options: `namespace`, and the options of every wait. Unless they are set, what is back
                is polled for every 5 s.

        Raises:
            ApiError: the controller is not there, or the server refuses.
            InvalidArgument: an argument that cannot be meant.
            WaitFailed: the controller was deleted meanwhile.
            WaitTimeout: the count did not come back within the limit (`rolling_update`).
        """
        terms = self._terms()
        if terms.settings.source("mode") == DEFAULT:
            options.setdefault("mode", "poll")
        if terms.settings.source("poll") == DEFAULT:
            options.setdefault("poll", terms.timeouts["rolling_update_poll"])
        replaced = self._verb("rolling_update")(target, update_period, **options)
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
