"""Spans of tests, steps and waits, in runs on a cluster that is a dictionary."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from pytest_kwait.engine.active_waits import ACTIVE_WAITS

Log = Callable[[], str]

_MAP = '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}'
_TRACE = "0af7651916cd43dd8448eb211c80319c"
_PARENT = "b7ad6b7169203331"


class Spans:
    """The spans of a run, by name."""

    def __init__(self, spans: list[dict[str, Any]]) -> None:
        self.all = {span["name"]: span for span in spans}
        assert len(self.all) == len(spans)
        names = {span["context"]["span_id"]: span["name"] for span in spans}
        self.parents = {
            span["name"]: names.get(span["parent_id"], span["parent_id"]) for span in spans
        }

    def __getitem__(self, name: str) -> dict[str, Any]:
        return self.all[name]

    def attributes(self, name: str) -> dict[str, Any]:
        """Return the attributes of a span, with names of namespaces without their ends."""
        text = re.sub(r"t-(\w+)-[a-z0-9]{5}\b", r"t-\1", json.dumps(self[name]["attributes"]))
        values: dict[str, Any] = json.loads(text)
        return values

    def status(self, name: str) -> tuple[str, str]:
        status = self[name]["status"]
        described = re.sub(r"t-(\w+)-[a-z0-9]{5}\b", r"t-\1", status.get("description", ""))
        return status["status_code"], described


@pytest.fixture
def spans(
    pytester: pytest.Pytester, fake_cluster: Log, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], Spans]:
    """Return the finished spans of a run."""
    for name in ("TRACEPARENT", "TRACESTATE"):
        monkeypatch.delenv(name, raising=False)
    # The run around this test would make its own spans beside those of the run inside.
    monkeypatch.setattr(ACTIVE_WAITS, "wait_contexts", [])
    monkeypatch.setattr(ACTIVE_WAITS, "step_contexts", [])
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    # A process has one for good, which is not this test's.
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    return lambda: Spans([json.loads(span.to_json()) for span in exporter.get_finished_spans()])


def extend_conftest(pytester: pytest.Pytester, text: str) -> None:
    """Add to the conftest of the fake cluster."""
    path = pytester.path / "conftest.py"
    path.write_text(f"{path.read_text()}\nfrom opentelemetry import trace\n{text}")


def test_waits_are_in_steps_are_in_tests(
    pytester: pytest.Pytester, spans: Callable[[], Spans]
) -> None:
    pytester.makepyfile(
        test_it=f"""
        def test_it(kwait):
            with kwait.step("create"):
                kwait.apply({_MAP})
                with kwait.step("look"):
                    kwait.wait_for("configmap/x", "create", timeout="9s")
        """
    )
    pytester.runpytest().assert_outcomes(passed=1)
    found = spans()
    test = "test_it.py::test_it"
    assert found.parents == {test: None, "create": test, "look": "create", "wait_for": "look"}
    assert found.attributes(test) == {
        "test.case.name": test,
        "code.file.path": "test_it.py",
        "code.line.number": 1,
        "k8s.namespace.name": "t-it",
        "kwait.namespaces": ["t-it"],
        "test.case.result.status": "pass",
    }
    assert found.attributes("wait_for") == {
        "kwait.subject": "configmap t-it/x",
        "kwait.goal": "get created",
        "kwait.limit": 9.0,
        "kwait.outcome": "met",
        "kwait.retries": 0,
        "k8s.namespace.name": "t-it",
    }
    assert {found.status(name) for name in found.all} == {("UNSET", "")}


def test_a_failed_wait_has_its_headline_at_each_span(
    pytester: pytest.Pytester, spans: Callable[[], Spans]
) -> None:
    pytester.makepyfile(
        test_it="""
        def test_it(kwait):
            with kwait.step("look"):
                kwait.wait_for("configmap/x", "create", timeout="20ms")
        """
    )
    pytester.runpytest().assert_outcomes(failed=1)
    found = spans()
    headline = "configmap t-it/x did not get created within 20ms: not found yet"
    for name in ("test_it.py::test_it", "look", "wait_for"):
        assert found.status(name) == ("ERROR", headline)
    assert found.attributes("test_it.py::test_it")["test.case.result.status"] == "fail"
    assert found.attributes("wait_for")["kwait.outcome"] == "timed out"
    (event,) = found["wait_for"]["events"]
    assert event["name"] == "verdict"
    assert event["attributes"] == {"kwait.verdict": "not found yet"}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("pytest.skip('no')", "skip"),
        ("pytest.xfail('known')", "xfail"),
        ("assert not kwait, 'hunter2'", "fail"),
    ],
)
def test_outcomes_of_tests(
    pytester: pytest.Pytester, spans: Callable[[], Spans], body: str, status: str
) -> None:
    pytester.makepyfile(test_it=f"import pytest\ndef test_it(kwait):\n    {body}\n")
    pytester.runpytest()
    found = spans()
    assert found.attributes("test_it.py::test_it")["test.case.result.status"] == status
    code, _ = found.status("test_it.py::test_it")
    assert code == ("ERROR" if status == "fail" else "UNSET")


def test_the_last_attempt_of_a_test_counts(
    pytester: pytest.Pytester, spans: Callable[[], Spans]
) -> None:
    extend_conftest(
        pytester,
        """
@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    # As pytest-rerunfailures.
    from _pytest.runner import runtestprotocol

    runtestprotocol(item, log=False, nextitem=nextitem)
    runtestprotocol(item, nextitem=nextitem)
    return True
""",
    )
    pytester.makepyfile(
        test_it="def test_it(kwait, runs=[]):\n    runs.append(1)\n    assert runs[1:]\n"
    )
    pytester.runpytest().assert_outcomes(passed=1)
    assert spans().status("test_it.py::test_it") == ("UNSET", "")


def test_a_span_of_another_plugin_around_the_test_is_the_parent(
    pytester: pytest.Pytester, spans: Callable[[], Spans]
) -> None:
    extend_conftest(
        pytester,
        """
# As pytest-opentelemetry.
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    with trace.get_tracer("other").start_as_current_span("around"):
        yield

def pytest_runtest_logreport(report):
    if report.when == "call":
        trace.get_current_span().set_attribute("outcome", report.outcome)

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    with trace.get_tracer("other").start_as_current_span("call"):
        yield
""",
    )
    pytester.makepyfile(
        test_it="""
        from opentelemetry import trace

        TRACER = trace.get_tracer("product")

        def exists(obj):
            with TRACER.start_as_current_span("predicate"):
                return True

        def test_it(kwait):
            with TRACER.start_as_current_span("product"):
                kwait.wait_for(f"namespace/{kwait.namespace}", exists)
        """
    )
    pytester.runpytest().assert_outcomes(passed=1)
    test, found = "test_it.py::test_it", spans()
    assert found["around"]["attributes"] == {"outcome": "passed"}
    assert found.parents == {
        "around": None,
        test: "around",
        "call": test,
        "product": "call",
        "wait_for": "product",
        "predicate": "wait_for",
    }


def test_threads_and_async_waits_are_in_the_test(
    pytester: pytest.Pytester, spans: Callable[[], Spans]
) -> None:
    pytester.makepyfile(
        test_it=f"""
        import asyncio
        from concurrent.futures import ThreadPoolExecutor

        def test_it(kwait):
            kwait.apply({_MAP})

            async def body():
                with kwait.step("async"):
                    await kwait.aio.wait_for("configmap/x", "create")

            asyncio.run(body())
            with ThreadPoolExecutor() as pool, kwait.step("step"):
                pool.submit(kwait.wait_for_kube_root_ca).result()
        """
    )
    pytester.runpytest().assert_outcomes(passed=1)
    test = "test_it.py::test_it"
    assert spans().parents == {
        test: None,
        "async": test,
        "wait_for": "async",
        "step": test,
        "wait_for_kube_root_ca": test,
    }


def test_a_loop_that_an_earlier_test_began_has_the_present_test(
    pytester: pytest.Pytester, spans: Callable[[], Spans]
) -> None:
    pytester.makepyfile(
        test_it="""
        import contextvars
        from opentelemetry import trace

        class TestIt:
            def test_first(self, kwait):
                type(self).context = contextvars.copy_context()

            def test_second(self, kwait):
                self.context.run(kwait.wait_for, f"namespace/{kwait.namespace}", "create")
        """
    )
    pytester.runpytest().assert_outcomes(passed=2)
    assert spans().parents["wait_for"] == "test_it.py::TestIt::test_second"


def test_the_test_is_in_the_trace_of_the_environment(
    pytester: pytest.Pytester, spans: Callable[[], Spans], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACEPARENT", f"00-{_TRACE}-{_PARENT}-01")
    monkeypatch.setenv("TRACESTATE", "vendor=1")
    pytester.makepyfile(test_it="def test_it(kwait):\n    pass\n")
    pytester.runpytest().assert_outcomes(passed=1)
    span = spans()["test_it.py::test_it"]
    assert span["context"]["trace_id"] == f"0x{_TRACE}"
    assert span["parent_id"] == f"0x{_PARENT}"
    assert "vendor" in span["context"]["trace_state"]


@pytest.mark.parametrize("given", [None, f"00-{_TRACE}-{_PARENT}-01"])
def test_programs_get_the_span_of_test_and_step(
    pytester: pytest.Pytester,
    spans: Callable[[], Spans],
    monkeypatch: pytest.MonkeyPatch,
    given: str | None,
) -> None:
    if given is not None:
        monkeypatch.setenv("TRACEPARENT", given)
    pytester.makepyfile(
        test_it="""
        import os
        import subprocess
        import sys
        import threading

        PRINT = "import os; print(os.environ['TRACEPARENT'])"

        def run():
            return subprocess.run(
                [sys.executable, "-S", "-c", PRINT], capture_output=True, text=True, check=True
            ).stdout

        def test_it(kwait):
            print("test", run())
            with kwait.step("step"):
                print("step", run())

                def other():
                    with kwait.step("other"):
                        print("other", run())

                thread = threading.Thread(target=other)
                thread.start()
                thread.join()
            print("after", run())
        """
    )
    extend_conftest(
        pytester,
        """
def pytest_sessionfinish():
    print("end", os.environ.get("TRACEPARENT"))
""",
    )
    result = pytester.runpytest("-s")
    result.assert_outcomes(passed=1)
    found = spans()

    def named(name: str) -> str:
        context = found[name]["context"]
        return f"00-{context['trace_id'][2:]}-{context['span_id'][2:]}"

    test, step = named("test_it.py::test_it"), named("step")
    assert re.findall(r"(\w+) (00-\w+-\w+|None)", result.stdout.str()) == [
        ("test", test),
        ("step", step),
        ("other", step),
        ("after", test),
        ("end", str(given).removesuffix("-01")),
    ]


def test_steps_of_tasks_that_overlap_leave_the_span_of_the_test(
    pytester: pytest.Pytester, spans: Callable[[], Spans]
) -> None:
    pytester.makepyfile(
        test_it="""
        import asyncio
        import os

        def test_it(kwait):
            named = os.environ["TRACEPARENT"]

            async def body(name, begun, ended):
                await begun.wait()
                with kwait.step(name):
                    assert os.environ["TRACEPARENT"] != named
                    ended.set()
                    await asyncio.sleep(0)

            async def both():
                begun, ended = asyncio.Event(), asyncio.Event()
                begun.set()
                await asyncio.gather(body("a", begun, ended), body("b", ended, asyncio.Event()))

            asyncio.run(both())
            assert os.environ["TRACEPARENT"] == named
        """
    )
    pytester.runpytest().assert_outcomes(passed=1)
    assert spans().parents == {
        "a": "test_it.py::test_it",
        "b": "test_it.py::test_it",
        "test_it.py::test_it": None,
    }


def test_a_hook_is_in_the_span_of_its_wait(
    pytester: pytest.Pytester, spans: Callable[[], Spans]
) -> None:
    extend_conftest(
        pytester,
        """
def pytest_kwait_wait_ended(wait):
    trace.get_current_span().set_attribute("team", wait.outcome)
""",
    )
    pytester.makepyfile(test_it="def test_it(kwait):\n    kwait.wait_for_kube_root_ca()\n")
    pytester.runpytest().assert_outcomes(passed=1)
    assert spans()["wait_for_kube_root_ca"]["attributes"]["team"] == "met"


def test_a_run_without_a_provider_has_no_spans(
    pytester: pytest.Pytester, fake_cluster: Log
) -> None:
    pytester.makepyfile(
        """
        import os
        import opentelemetry.trace

        def test_it(kwait):
            with kwait.step("look"):
                kwait.wait_for(f"namespace/{kwait.namespace}", "create")
            assert "TRACEPARENT" not in os.environ
        """
    )
    pytester.runpytest().assert_outcomes(passed=1)
