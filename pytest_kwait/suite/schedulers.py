"""A scheduler that runs beside a test, in threads of this process."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from pytest_kwait import wait
from pytest_kwait.apimachinery.arguments import check_function
from pytest_kwait.apimachinery.validation import check_name
from pytest_kwait.client.session import ApiSession
from pytest_kwait.errors import PLAIN_TRACEBACKS, InvalidArgument
from pytest_kwait.scheduler import Algorithm, ConfigFactory, Scheduler, SchedulingAlgorithm
from pytest_kwait.scheduler.schedule_one import DefaultBinder
from pytest_kwait.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kubernetes.client import ApiClient

    from pytest_kwait.clock import Deadline
    from pytest_kwait.scheduler.algorithm import Predicate
    from pytest_kwait.scheduler.framework.cycle_state import NodeLister

_log = logging.getLogger(__name__)
_log.addFilter(PLAIN_TRACEBACKS)

# The API limits the reporting instance to 128 characters: name, hyphen, host name.
_MAX_NAME_LENGTH = 63

PlacementFunction: TypeAlias = Callable[[Mapping[str, Any], "NodeLister"], str]


class RunningScheduler:
    """A scheduler with a name of its own, running until it is stopped.

    Args:
        name: its `spec.schedulerName`; None for a unique one.
        options: further options of `ConfigFactory`.

    Raises:
        InvalidArgument: an invalid name or option.
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
        """The `spec.schedulerName` of its pods."""
        factory = ConfigFactory(client, scheduler_names={self.name: algorithm}, **options)
        self.config = factory.create()
        """Its configuration: queue, cache and informers."""
        self._binds = DefaultBinder(ApiSession.of(client))
        self._ctx, self._stop = wait.with_cancel(wait.background(self.config.clock))
        self._worker = Worker(
            f"kwait scheduler {self.name}",
            lambda: Scheduler(self.config).run(self._ctx),
            on_error=lambda error: _log.error("scheduler %s ended", self.name, exc_info=error),
        )

    def __repr__(self) -> str:
        return f"<scheduler {self.name}>"

    def start(self) -> None:
        """Start it; pods are scheduled once the caches have synced."""
        self.config.informers.start()
        self._worker.start()

    @property
    def is_running(self) -> bool:
        """Return whether it was started and has not stopped."""
        return self._worker.is_alive

    def bind(self, pod: Mapping[str, Any], node: str, *, deadline: Deadline) -> None:
        """Bind a pod as the default binder does; for use in custom binders.

        Raises:
            KwaitError: the server refused, or was not reached in time.
        """
        self._binds(pod, node, deadline=deadline)

    def stop(self) -> str | None:
        """Stop it, waiting for at most one request; return its earlier error, if any."""
        self._stop()
        self._worker.join()
        error = self._worker.error
        if error is None:
            return None
        return f"scheduler {self.name} ended before it was stopped: {type(error).__name__}: {error}"


class _FunctionAlgorithm:
    """Adapts a function to the algorithm's interface."""

    def __init__(self, places: PlacementFunction) -> None:
        self._places = places

    def schedule(self, pod: Mapping[str, Any], node_lister: NodeLister, /) -> str:
        return self._places(pod, node_lister)


def choose_algorithm(
    predicates: Iterable[str | Predicate] | None = None,
    priorities: Mapping[Any, int] | None = None,
    algorithm: SchedulingAlgorithm | PlacementFunction | None = None,
) -> SchedulingAlgorithm:
    """Return the given algorithm, or one made of predicates and priorities.

    Args:
        predicates: None for kube-scheduler's default.
        priorities: with weights; None for the default.
        algorithm: an object with `schedule(pod, node_lister)`, or such a function.

    Raises:
        InvalidArgument: both an algorithm and parts, or an unknown name.
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
    valid = "an object with schedule(pod, node_lister), or such a function"
    check_function("algorithm", algorithm, valid)
    return _FunctionAlgorithm(cast("PlacementFunction", algorithm))
