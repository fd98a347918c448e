"""OpenTelemetry spans of tests, steps and waits, by the API alone: see `docs/hooks.md`.

Nothing is imported here: where no code of the run has imported the API, nothing can receive spans.
The environment variable TRACEPARENT names the span of the test or step to the programs that it
starts.

Exceptions are not recorded as events: their tracebacks may have values of Secrets. The status of a
span has the headline, which has none.

Source: the specification's "Environment variables as context propagation carriers", and its
semantic conventions for `test` and `k8s`.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.plugin.report_guard import guard_report
from pytest_kwait.plugin.timeout import running_item

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

    from pytest_kwait.engine.active_waits import ActiveWait
    from pytest_kwait.plugin.run import Run

_API = "opentelemetry.trace"
_PROVIDER_VARIABLE = "OTEL_PYTHON_TRACER_PROVIDER"
"""Names a provider that the API makes by itself."""

_TEST_KEY = "pytest-kwait-test"
"""The key of the running test in a context."""

_VARIABLES = {"TRACEPARENT": "traceparent", "TRACESTATE": "tracestate"}
_NANOSECONDS = 1_000_000_000


class _TestSpan:
    """The span of a running test.

    Args:
        parent: the context of its parent.
    """

    def __init__(self, span: Span, parent: Context) -> None:
        from opentelemetry import context, trace

        self.span = span
        self.context = context.set_value(_TEST_KEY, self, trace.set_span_in_context(span, parent))
        self.status = "pass"
        self.headline = ""

    def record(self, report: pytest.TestReport) -> None:
        """Record the outcome of a phase; the setup begins a further attempt."""
        from pytest_kwait.plugin.failures import failure_of

        if report.when == "setup":
            self.status, self.headline = "pass", ""
        if report.failed and self.status != "fail":
            self.status, self.headline = "fail", failure_of(report).headline
        elif report.skipped and self.status == "pass":
            self.status = "xfail" if hasattr(report, "wasxfail") else "skip"

    def end(self) -> None:
        self.span.set_attribute("test.case.result.status", self.status)
        if self.status == "fail":
            _set_error(self.span, self.headline)
        self.span.end()


class Tracing:
    """Makes the spans of this process."""

    def __init__(self, run: Run) -> None:
        self._config = run.config
        self._test: _TestSpan | None = None

    def pytest_configure(self) -> None:
        """Trace from now on."""
        from pytest_kwait.engine.active_waits import ACTIVE_WAITS

        # First: the code of hooks is in the wait's span.
        ACTIVE_WAITS.wait_contexts.insert(0, self._around_wait)
        ACTIVE_WAITS.step_contexts.append(self._around_step)

    def pytest_unconfigure(self) -> None:
        """Trace no more."""
        from pytest_kwait.engine.active_waits import ACTIVE_WAITS

        ACTIVE_WAITS.wait_contexts.remove(self._around_wait)
        ACTIVE_WAITS.step_contexts.remove(self._around_step)

    # Last: the span of another plugin around the test is the parent.
    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Make the span of a test."""
        tracer = _find_tracer()
        if tracer is None:
            return (yield)
        parent = _parent_of_tests()
        path, line, _ = item.location
        attributes: dict[str, str | int] = {"test.case.name": item.nodeid, "code.file.path": path}
        if line is not None:
            attributes["code.line.number"] = line + 1
        span = tracer.start_span(item.nodeid, parent, attributes=attributes)
        test = _TestSpan(span, parent)
        before = {name: os.environ.get(name) for name in _VARIABLES}
        self._test = test
        _export(test.context)
        try:
            return (yield)
        finally:
            self._test = None
            _set_variables(before)
            test.end()

    # First: spans of other plugins in a phase are in that of the test.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self) -> Generator[None, object, object]:
        """Make the span current while the test is set up."""
        return (yield from self._phase())

    # First: spans of other plugins in a phase are in that of the test.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self) -> Generator[None, object, object]:
        """Make the span current while the test is called."""
        return (yield from self._phase())

    # First: spans of other plugins in a phase are in that of the test.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self) -> Generator[None, object, object]:
        """Make the span current while the test is torn down."""
        return (yield from self._phase())

    # First: it sees a report that all others have completed.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    @guard_report
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Record the outcome of a phase, and the namespaces of the test."""
        report = yield
        if self._test is not None:
            from pytest_kwait.plugin.failures import namespaces_of

            self._test.record(report)
            if names := namespaces_of(item):
                self._test.span.set_attribute("k8s.namespace.name", names[0])
                self._test.span.set_attribute("kwait.namespaces", names)
        return report

    def _phase(self) -> Generator[None, object, object]:
        """Make the span of the test current in a phase.

        Between phases that of another plugin is: it sets the test's status on the current span.
        """
        if self._test is None:
            return (yield)
        from opentelemetry import context

        token = context.attach(self._test.context)
        try:
            return (yield)
        finally:
            context.detach(token)

    @contextmanager
    def _around_step(self, name: str) -> Iterator[None]:
        """Make the span of a step."""
        tracer = _find_tracer()
        if tracer is None:
            yield
            return
        parent = self._find_parent()
        span = tracer.start_span(name, parent)
        try:
            with _current(span, parent):
                self._export_current()
                yield
        except BaseException as error:
            if span.is_recording():
                _set_error(span, self._describe_error(error))
            raise
        finally:
            self._export_current()
            span.end()

    @contextmanager
    def _around_wait(self, wait: ActiveWait) -> Iterator[None]:
        """Make the span of a wait."""
        tracer = _find_tracer()
        if tracer is None:
            yield
            return
        from pytest_kwait.clock import SYSTEM_CLOCK
        from pytest_kwait.suite.observers import describe_wait

        parent = self._find_parent()
        # A wait may have used a part of its limit before.
        used = max(wait.deadline.clock.monotonic() - wait.started, 0.0)
        started = round((SYSTEM_CLOCK.time() - used) * _NANOSECONDS)
        span = tracer.start_span(wait.name or "wait", parent, start_time=started)
        try:
            with _current(span, parent):
                yield
        finally:
            if span.is_recording():
                if wait.outcome != "met":
                    wait.learn_secrets(1.0)
                info = describe_wait(wait)
                span.set_attributes(
                    {
                        "kwait.subject": info.subject,
                        "kwait.goal": info.goal,
                        "kwait.limit": info.limit,
                        "kwait.outcome": info.outcome,
                        "kwait.retries": info.retries,
                    }
                )
                if info.namespace:
                    span.set_attribute("k8s.namespace.name", info.namespace)
                for change in (*wait.timeline.first, *wait.timeline.latest):
                    span.add_event(
                        "verdict",
                        {"kwait.verdict": wait.hide(change.text)},
                        started + round(change.at * _NANOSECONDS),
                    )
                if info.headline:
                    _set_error(span, info.headline)
            # Evidence is gathered after the end.
            span.end(started + round(wait.seconds * _NANOSECONDS))

    def _find_parent(self) -> Context:
        """Return the present context; that of the running test if it has another one or none.

        A thread of the test's own has none; the event loop of a plugin may have an earlier test's.
        """
        from opentelemetry import context

        current = context.get_current()
        test = self._test
        if test is None or context.get_value(_TEST_KEY, current) is test:
            return current
        return test.context

    def _export_current(self) -> None:
        """Name the present span to programs; not that of a step in another thread."""
        if self._test is not None and threading.current_thread() is threading.main_thread():
            _export(self._find_parent())

    def _describe_error(self, error: BaseException) -> str:
        from pytest_kwait.engine.failure.redaction import SECRET_VALUES, make_redactor
        from pytest_kwait.engine.failure.shortening import cut_headline
        from pytest_kwait.plugin.failures import headline_of, redaction_of

        item = running_item(self._config)
        redact = make_redactor(()) if item is None else redaction_of(item, max_age=1.0)
        return SECRET_VALUES.mask(cut_headline(redact(headline_of(error))))


def _find_tracer() -> Tracer | None:
    """Return the tracer; None if no code of this process can receive spans."""
    if _API not in sys.modules and _PROVIDER_VARIABLE not in os.environ:
        return None
    from opentelemetry import trace

    return trace.get_tracer("pytest-kwait")


def _parent_of_tests() -> Context:
    """Return the present context; without a span, with the one that TRACEPARENT names."""
    from opentelemetry import context, trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    current = context.get_current()
    if trace.get_current_span(current).get_span_context().is_valid:
        return current
    carrier = {key: os.environ[name] for name, key in _VARIABLES.items() if name in os.environ}
    return TraceContextTextMapPropagator().extract(carrier, current)


@contextmanager
def _current(span: Span, parent: Context) -> Iterator[None]:
    from opentelemetry import context, trace

    token = context.attach(trace.set_span_in_context(span, parent))
    try:
        yield
    finally:
        context.detach(token)


def _export(own: Context) -> None:
    """Name the span of a context in the environment of programs."""
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier, own)
    if carrier:
        _set_variables({name: carrier.get(key) for name, key in _VARIABLES.items()})


def _set_variables(values: dict[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _set_error(span: Span, text: str) -> None:
    from opentelemetry.trace import Status, StatusCode

    span.set_status(Status(StatusCode.ERROR, text))
