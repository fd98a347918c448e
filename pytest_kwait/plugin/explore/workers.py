"""Workers of pytest-xdist: how they ask the controller, and why it schedules no test itself."""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from pytest_kwait.errors import ClusterError
from pytest_kwait.plugin.cluster import RunCluster
from pytest_kwait.plugin.explore.coordinator import CollectedTest  # noqa: TC001 - read by decoders
from pytest_kwait.suite.explore.plan import Assignment  # noqa: TC001 - read by decoders
from pytest_kwait.suite.explore.verdict import ExploredRun  # noqa: TC001 - read by decoders

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from pytest_kwait.plugin.cluster_source import ControllerConnection
    from pytest_kwait.plugin.explore.coordinator import Coordinator
    from pytest_kwait.plugin.run import Run

_TOPIC = "explore"

_MAX_RESULT_SIZE = 4 * 1024 * 1024
"""Bytes of a result; the reports of a larger one are left out."""


class RunQueue(Protocol):
    """What a process runs, and where its results go."""

    def join(self, tests: list[CollectedTest]) -> str:
        """Offer the collected tests; return why this process cannot take part, or nothing."""

    def next(self) -> Assignment | None:
        """Return what to run next; None at the end."""

    def add(self, result: ExploredRun) -> bool:
        """Report a run; return whether the exploration goes on."""

    def shrink(self, result: ExploredRun) -> None:
        """Report a failed run that is shrunk next, before it is added."""


class LocalQueue:
    """The tests of a process that owns the exploration.

    Args:
        coordinator: gives out the tests.
    """

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    def join(self, tests: list[CollectedTest]) -> str:
        """Offer the collected tests."""
        return self._coordinator.join("", tests)

    def next(self) -> Assignment | None:
        """Return what to run next."""
        return self._coordinator.next("")

    def add(self, result: ExploredRun) -> bool:
        """Report a run."""
        return self._coordinator.add("", result)

    def shrink(self, result: ExploredRun) -> None:
        """Report a failed run that is shrunk next."""
        self._coordinator.shrink("", result)


@dataclass(slots=True)
class _Message:
    """A request of a worker; `tests` or `result` is set, none to get an assignment."""

    worker: str
    tests: list[CollectedTest] | None = None
    result: ExploredRun | None = None
    shrinks: bool = False
    """True if the result is shrunk next."""


@dataclass(slots=True)
class _Answer:
    """The answer of the controller."""

    problem: str = ""
    assignment: Assignment | None = None
    goes_on: bool = True


@cache
def _get_decoder(shape: type) -> Any:
    # Imported on use: runs that explore nothing load no JSON library for it.
    from pytest_kwait.client.responses import make_decoder

    return make_decoder(shape)


class RemoteQueue:
    """The tests of a worker, which asks its controller.

    A controller that is gone ends the exploration.

    Args:
        worker: the name of this worker.
    """

    def __init__(
        self, config: pytest.Config, connection: ControllerConnection, worker: str
    ) -> None:
        self._config = config
        self._connection = connection
        self._worker = worker

    def join(self, tests: list[CollectedTest]) -> str:
        """Offer the collected tests."""
        return self._send(_Message(self._worker, tests=tests)).problem

    def next(self) -> Assignment | None:
        """Return what to run next."""
        return self._send(_Message(self._worker)).assignment

    def add(self, result: ExploredRun) -> bool:
        """Report a run."""
        return self._send(_Message(self._worker, result=self._to_sent(result))).goes_on

    def shrink(self, result: ExploredRun) -> None:
        """Report a failed run that is shrunk next."""
        self._send(_Message(self._worker, result=self._to_sent(result), shrinks=True))

    def _to_sent(self, result: ExploredRun) -> ExploredRun:
        """Return a run with its reports as pytest-xdist sends them."""
        hook = self._config.hook
        reports = [
            hook.pytest_report_to_serializable(config=self._config, report=report)
            for report in result.reports
        ]
        sent = replace(result, reports=reports)
        if len(_encode(sent)) > _MAX_RESULT_SIZE:
            sent.reports = []
        return sent

    def _send(self, message: _Message) -> _Answer:
        data = base64.b64encode(_encode(message)).decode()
        try:
            answer = self._connection.request(_TOPIC, data)
        except ClusterError:
            return _Answer(goes_on=False)
        decoded: _Answer = _get_decoder(_Answer).decode(answer["answer"])
        return decoded


def _encode(value: object) -> bytes:
    import msgspec

    # Properties that a test recorded may be of any type.
    return msgspec.json.encode(value, enc_hook=str)


def serve_coordinator(run: Run, coordinator: Coordinator) -> None:
    """Answer the requests of workers."""

    def reply(data: bytes) -> dict[str, Any]:
        message = _get_decoder(_Message).decode(base64.b64decode(data))
        answer = _answer(run.config, coordinator, message)
        return {"answer": _encode(answer).decode()}

    run.get(RunCluster).serve_workers(_TOPIC, reply)


def _answer(config: pytest.Config, coordinator: Coordinator, message: _Message) -> _Answer:
    if message.tests is not None:
        return _Answer(problem=coordinator.join(message.worker, message.tests))
    if message.result is not None:
        hook = config.hook
        reports = [
            hook.pytest_report_from_serializable(config=config, data=data)
            for data in message.result.reports
        ]
        for report in reports:
            if isinstance(report.longrepr, list):
                # The place and the reason of a skip; JSON has no tuples.
                report.longrepr = tuple(report.longrepr)
        message.result.reports = reports
        if message.shrinks:
            coordinator.shrink(message.worker, message.result)
            return _Answer()
        return _Answer(goes_on=coordinator.add(message.worker, message.result))
    return _Answer(assignment=coordinator.next(message.worker))


class ExploringScheduler:
    """A scheduler of pytest-xdist that sends no test: workers ask for what they run.

    Whatever `--dist` says, any worker may run any test.

    Args:
        coordinator: gives out the tests.
    """

    def __init__(self, coordinator: Coordinator, workers: int) -> None:
        self._coordinator = coordinator
        self._workers = workers
        self._nodes: list[Any] = []
        self._collected = 0
        self._ended = 0

    @property
    def nodes(self) -> list[Any]:
        """The workers."""
        return self._nodes

    @property
    def collection_is_completed(self) -> bool:
        """True once all workers have collected their tests."""
        return self._collected >= self._workers

    @property
    def tests_finished(self) -> bool:
        """True once nothing is given out any more, or no worker is left."""
        if self._ended and not self._nodes:
            return True
        return self.collection_is_completed and self._coordinator.is_over

    @property
    def has_pending(self) -> bool:
        """True while tests are given out."""
        return not self._coordinator.is_over

    def add_node(self, node: Any) -> None:
        """Add a worker that has started."""
        self._nodes.append(node)

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        """Note that a worker has collected its tests, which it offers itself."""
        self._collected += 1

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """Do nothing: runs are counted as they are reported."""

    def mark_test_pending(self, item: str) -> None:
        """Do nothing: a run in which a worker crashed is not repeated."""

    def remove_pending_tests_from_node(self, node: Any, indices: Sequence[int]) -> None:
        """Do nothing: workers have no pending tests."""

    def remove_node(self, node: Any) -> None:
        """Remove a worker that has ended; a crash is counted as a failed run."""
        if node not in self._nodes:
            # As pytest-xdist expects of a worker that did not start.
            raise KeyError(node)
        self._nodes.remove(node)
        self._ended += 1

    def schedule(self) -> None:
        """Do nothing: workers ask."""
