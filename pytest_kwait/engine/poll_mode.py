"""Poll mode: list every source every `poll`, as the Go framework does."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pytest_kwait.engine.retry import ErrorAction, ErrorLog, classify_error, request_once
from pytest_kwait.engine.shared_stream import enter_list
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
    """One wait over lists.

    Args:
        session: who asks the server.
        condition: what is awaited.
        judge: what the verdicts mean for the wait.
        deadline: when it must be over.
        poll: the pause between looks in seconds; a look's own time is part of it.
        probe: how to look at what cannot be listed; None where everything is.
        troubles: where errors are noted.
    """

    def __init__(
        self,
        session: Session,
        condition: Condition,
        judge: Evaluator,
        deadline: Deadline,
        *,
        poll: float,
        probe: Probe | None,
        troubles: ErrorLog,
    ) -> None:
        self._session = session
        self._condition = condition
        self._judge = judge
        self._deadline = deadline
        self._poll = poll
        self._probe = probe
        self._troubles = troubles
        self._forgone: set[Source] = set()
        self._ruling: Evaluation | None = None

    def run(self) -> Evaluation:
        """Return the ruling that ends the wait.

        Raises:
            ApiError: the server refuses what the wait needs.
            DeadlineExceeded: the time is up.
        """
        ctx = background(self._deadline.clock)
        timeout = self._deadline.remaining
        poll_until_context_timeout(ctx, self._poll, timeout, True, self._look)
        if self._ruling is None:
            raise AssertionError("the last look has not ruled")
        return self._ruling

    def _look(self, ctx: Context) -> bool:
        try:
            self._list_all()
            if self._probe is not None and (questions := self._probe.questions()):
                self._probe.record_answers(self._probe.ask(questions, self._deadline))
        except ApiError as error:
            if self._troubles.meet(error) is ErrorAction.STOP:
                raise
            if self._ruling is None:
                self._judge.note(f"cannot look: {error.message}")
            if error.retry_after:
                ctx.wait(error.retry_after)
            return False
        self._troubles.over()
        self._ruling = self._judge.rule(fresh=True)
        return self._ruling.final

    def _list_all(self) -> None:
        """List what the condition names, and what it names once it has seen that."""
        listed = set(self._forgone)
        while missing := [s for s in self._condition.sources() if s not in listed]:
            for source in missing:
                listed.add(source)
                try:
                    answer = request_once(partial(self._list, source), self._deadline)
                except ApiError as error:
                    if not source.optional or classify_error(error) is not ErrorAction.STOP:
                        raise
                    self._troubles.record_error(error)
                    self._forgone.add(source)
                    continue
                items = [(item.object, item.raw) for item in answer.items]
                enter_list(source, items, self._session.clock.monotonic())

    def _list(self, source: Source, deadline: Deadline) -> ObjectList:
        return self._session.list(
            source.resource,
            source.namespace,
            label_selector=source.selector,
            field_selector=source.field_selector,
            deadline=deadline,
            type=source.fields,
        )
