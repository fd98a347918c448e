"""Spans of a run, and TRACEPARENT in its programs, with the SDK of OpenTelemetry."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from conformance.runs.inner_runs import run

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait import Cluster

CONFTEST = """
import json
from pathlib import Path

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

EXPORTER = InMemorySpanExporter()
PROVIDER = TracerProvider()
PROVIDER.add_span_processor(SimpleSpanProcessor(EXPORTER))
trace.set_tracer_provider(PROVIDER)


def pytest_unconfigure():
    spans = [json.loads(span.to_json()) for span in EXPORTER.get_finished_spans()]
    Path("spans.json").write_text(json.dumps(spans))
"""
SUITE = """
import os


def test_it(kwait):
    with kwait.step("program"):
        traced = {"TRACEPARENT": os.environ["TRACEPARENT"]}
        done = kwait.run("busybox:1.36", "sh", "-c", "echo $TRACEPARENT", env=traced)
        assert done.output.strip() == traced["TRACEPARENT"]
        print(f"[{done.output.strip()}]")
    kwait.wait_for("pod/absent", "create", timeout="1s")
"""


def test_spans_of_tests_steps_and_waits(kwait_cluster: Cluster, tmp_path: Path) -> None:
    """The spans are one tree, and a program in a pod is given the place of its step."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    status, output = run(tmp_path, kwait_cluster.kubeconfig, SUITE)
    assert status == 1, output
    spans = json.loads((tmp_path / "spans.json").read_text())
    names = {span["context"]["span_id"]: span["name"] for span in spans}
    parents = {(span["name"], names.get(span["parent_id"])) for span in spans}
    test = "test_suite.py::test_it"
    assert {(test, None), ("program", test), ("wait_for", test)} <= parents
    (step,) = (span for span in spans if span["name"] == "program")
    context = step["context"]
    assert f"[00-{context['trace_id'][2:]}-{context['span_id'][2:]}-" in output
    (failed,) = (span for span in spans if span["name"] == "wait_for")
    namespace = failed["attributes"]["k8s.namespace.name"]
    assert failed["status"] == {
        "status_code": "ERROR",
        "description": f"pod {namespace}/absent did not get created within 1s: not found yet",
    }
    (whole,) = (span for span in spans if span["name"] == test)
    assert whole["status"] == failed["status"]
    assert whole["attributes"]["kwait.namespaces"] == [namespace]
