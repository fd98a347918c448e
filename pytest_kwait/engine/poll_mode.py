"""Poll mode: list every source every `poll`, as the Go framework does."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pytest_kwait.engine.retry import ErrorAction, ErrorLog, classify_error, request_once
from pytest_kwait.errors import ApiError
from pytest_kwait.wait.context import Context, background
from pytest_kwait.wait.poll import poll_until_context_timeout

if TYPE_CHECKING:
    from pytest_kwait.client.responses import ObjectList
    from pytest_kwait.client.session import Session
    from pytest_kwait.clock import Deadline
    from pytest_kwait.engine.condition import Condition, Probe, Source
    from pytest_kwait.engine.evaluator import Evaluation, Evaluator

__all__ = ["PollMode"]


class PollMode:
    """One wait over repeated lists.

    Args:
        session: the session of all requests.
        condition: the awaited condition.
        evaluator: evaluates the condition.
        deadline: the deadline of the wait.
        poll: the interval between two rounds of lists, in seconds.
        probe: the part of the condition that cannot be listed; None without one.
        errors: the log of API errors.
    """

    def __init__(
        self,
        session: Session,
        condition: Condition,
        evaluator: Evaluator,
        deadline: Deadline,
        *,
        poll: float,
        probe: Probe | None,
        errors: ErrorLog,
    ) -> None:
        self._session = session
        self._condition = condition
        self._evaluator = evaluator
        self._deadline = deadline
        self._poll = poll
        self._probe = probe
        self._errors = errors
        self._skipped: set[Source] = set()
        self._evaluation: Evaluation | None = None

    def run(self) -> Evaluation:
        """Return the final evaluation.

        Raises:
            ApiError: a final error of a list or of the probe.
            DeadlineExceeded: the deadline has passed.
        """
        ctx = background(self._deadline.clock)
        timeout = self._deadline.remaining
        poll_until_context_timeout(ctx, self._poll, timeout, True, self._run_round)
        if self._evaluation is None:
            raise AssertionError("no round was evaluated")
        return self._evaluation

    def _run_round(self, ctx: Context) -> bool:
        try:
            self._list_all()
            if self._probe is not None and (questions := self._probe.questions()):
                self._probe.record_answers(self._probe.ask(questions, self._deadline))
        except ApiError as error:
            if self._errors.decide(error) is ErrorAction.STOP:
                raise
            if self._evaluation is None:
                self._evaluator.record_text(f"cannot look: {error.message}")
            if error.retry_after:
                ctx.wait(error.retry_after)
            return False
        self._errors.record_success()
        self._evaluation = self._evaluator.evaluate(fresh=True)
        return self._evaluation.final

    def _list_all(self) -> None:
        """List all sources, including those that the condition adds meanwhile."""
        listed = set(self._skipped)
        while missing := [s for s in self._condition.sources() if s not in listed]:
            for source in missing:
                listed.add(source)
                try:
                    answer = request_once(partial(self._list, source), self._deadline)
                except ApiError as error:
                    if not source.optional or classify_error(error) is not ErrorAction.STOP:
                        raise
                    self._errors.record_error(error)
                    self._skipped.add(source)
                    continue
                items = [(item.object, item.raw) for item in answer.items]
                source.replace(items, self._session.clock.monotonic())

    def _list(self, source: Source, deadline: Deadline) -> ObjectList:
        return self._session.list(
            source.resource,
            source.namespace,
            label_selector=source.selector,
            field_selector=source.field_selector,
            deadline=deadline,
            type=source.fields,
        )
