"""A scheduler that runs beside a test, in threads of this process."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from pytest_kwait import wait
from pytest_kwait.apimachinery.validation import check_name
from pytest_kwait.client.session import Session
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.scheduler import Algorithm, ConfigFactory, Scheduler, SchedulingAlgorithm
from pytest_kwait.scheduler.binding import DefaultBinder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kubernetes.client import ApiClient

    from pytest_kwait.clock import Deadline
    from pytest_kwait.scheduler.framework.cycle_state import NodeLister
    from pytest_kwait.scheduler.plugins.registry import Predicate

__all__ = ["RunningScheduler", "choose_algorithm"]

_log = logging.getLogger(__name__)

# The API takes 128 characters for the name of who reports, a hyphen and the name of the host.
_MAX_NAME_LENGTH = 63

PlacementFunction: TypeAlias = Callable[[Mapping[str, Any], "NodeLister"], str]


class RunningScheduler:
    """A scheduler, known to pods by its name, running until it is stopped.

    Args:
        client: the client that it uses.
        algorithm: how it places pods.
        name: what pods ask for by `spec.schedulerName`; None for a name that nobody else has.
        options: further options of `ConfigFactory`.

    Raises:
        InvalidArgument: a name that is none, or an option that cannot be meant.
    """

    def __init__(
        self,
        client: ApiClient,
        algorithm: SchedulingAlgorithm,
        name: str | None = None,
        **options: Any,
    ) -> None:
        if name is not None and len(check_name("name", name)) > _MAX_NAME_LENGTH:
            raise InvalidArgument("name", name, f"at most {_MAX_NAME_LENGTH} characters")
        self.name = name or f"kwait-scheduler-{secrets.token_hex(4)}"
        """To be put into the `spec.schedulerName` of pods."""
        factory = ConfigFactory(client, scheduler_names={self.name: algorithm}, **options)
        self.config = factory.create()
        """What it is made of: its queue, its cache, its informers."""
        self._binds = DefaultBinder(Session.of(client))
        self._ctx, self._stop = wait.with_cancel(wait.background(self.config.clock))
        self._error: Exception | None = None
        self._thread = threading.Thread(
            target=self._run, name=f"kwait scheduler {self.name}", daemon=True
        )

    def __repr__(self) -> str:
        return f"<scheduler {self.name}>"

    def start(self) -> None:
        """Begin; pods have their turn once the caches have synced."""
        self.config.informers.start()
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether it has begun and has not ended."""
        return self._thread.is_alive()

    def bind(self, pod: Mapping[str, Any], node: str, *, deadline: Deadline) -> None:
        """Bind a pod as a scheduler without a binder of its own does: for use in such a binder.

        Args:
            pod: the pod.
            node: the node's name.
            deadline: when it must be done.

        Raises:
            KwaitError: the server refused, or was not reached in time.
        """
        self._binds(pod, node, deadline=deadline)

    def stop(self) -> str | None:
        """End it and wait for that, at most for the time of a request; more often does nothing.

        Returns:
            what went wrong while it ran, as a sentence; None for nothing.
        """
        self._stop()
        if self._thread.ident is not None:
            self._thread.join()
        if self._error is None:
            return None
        return (
            f"scheduler {self.name} ended before it was stopped: "
            f"{type(self._error).__name__}: {self._error}"
        )

    def _run(self) -> None:
        try:
            Scheduler(self.config).run(self._ctx)
        except Exception as error:  # a thread has nobody to raise to: `stop` tells
            self._error = error
            _log.exception("scheduler %s ended", self.name)


class _FunctionAlgorithm:
    """A function in the place of an algorithm."""

    def __init__(self, places: PlacementFunction) -> None:
        self._places = places

    def schedule(self, pod: Mapping[str, Any], node_lister: NodeLister, /) -> str:
        return self._places(pod, node_lister)


def choose_algorithm(
    predicates: Iterable[str | Predicate] | None = None,
    priorities: Mapping[Any, int] | None = None,
    algorithm: SchedulingAlgorithm | PlacementFunction | None = None,
) -> SchedulingAlgorithm:
    """Return the algorithm that is meant: one that is given whole, or made of the parts given.

    Args:
        predicates: what keeps pods from nodes; None for kube-scheduler's default.
        priorities: what makes a node better than others, with weights; None for the default.
        algorithm: something with a method `schedule(pod, node_lister)`, or such a function.

    Raises:
        InvalidArgument: both a whole and parts, an unknown name, or no algorithm at all.
    """
    if algorithm is None:
        parts: dict[str, Any] = {"predicates": predicates, "priorities": priorities}
        return Algorithm(**{name: part for name, part in parts.items() if part is not None})
    if predicates is not None or priorities is not None:
        valid = "left out where predicates or priorities are given"
        raise InvalidArgument("algorithm", algorithm, valid)
    if isinstance(algorithm, type):
        raise InvalidArgument("algorithm", algorithm, "an object, not its class")
    if callable(getattr(algorithm, "schedule", None)):
        return cast("SchedulingAlgorithm", algorithm)
    if not callable(algorithm):
        valid = "an object with schedule(pod, node_lister), or such a function"
        raise InvalidArgument("algorithm", algorithm, valid)
    return _FunctionAlgorithm(algorithm)
