"""A sample recording: a deployment that is rolled out, and a Job with a pod that cannot start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.protocol.recording.files import (
    VERSION,
    RecordedLine,
    Recording,
    RecordingHeader,
)
from pytest_kwait.suite.report.playback import make_playback

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.suite.report.run_report import RunReport

_LABELS = {"app": "web"}
_IMAGE = "registry.example/sleeper:latst"
_PULL_FAILED = f'Failed to pull image "{_IMAGE}": {_IMAGE}: not found'
_PULLED_AGAIN = f'Back-off pulling image "{_IMAGE}"'


def add_playbacks(report: RunReport) -> None:
    """Give each failed test of a report a recording."""
    for test in report.tests:
        if test.outcome == "failed":
            last = [wait for wait in report.waits if wait.test == test.test][-1]
            started = test.ended - test.seconds
            namespace = last.subject.partition(" ")[2].partition("/")[0]
            recording = sample_recording(
                namespace, started, last.started - started, last.seconds, last.headline
            )
            recording.header.test = test.test
            test.recording = f"artifacts/{namespace}/recording.jsonl.gz"
            test.playback = make_playback(recording, lambda text: text)


def sample_recording(
    namespace: str, started: float, job_at: float, seconds: float, failure: str
) -> Recording:
    """Return a recording of a test that creates a deployment, then a Job.

    Args:
        namespace: the namespace of the test.
        started: when the test began, in seconds since the epoch.
        job_at: when it created the Job, in seconds since then.
        seconds: how long it waited for that.
        failure: the failure.
    """
    lines = [*_roll_out(namespace), *_start_job(namespace, job_at, seconds)]
    lines.append(RecordedLine(job_at + seconds + 0.01, "FAILURE", text=failure, outcome="call"))
    lines.sort(key=lambda line: line.at)
    header = RecordingHeader(VERSION, started, "test_it.py::test_it", [namespace])
    return Recording(header, lines, job_at + seconds + 0.3)


def _change(
    at: float, kind: str, resource: str, namespace: str, name: str, **parts: Any
) -> RecordedLine:
    metadata = {
        "name": name,
        "namespace": namespace,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        **parts.pop("metadata", {}),
    }
    obj = {"apiVersion": "v1", "metadata": metadata, **parts}
    return RecordedLine(at, kind, resource, f"{namespace}/{name}", object=obj)


def _pod(at: float, kind: str, namespace: str, name: str, state: str = "") -> RecordedLine:
    """Return a change of a pod: pending, being created, running, or waiting for a reason."""
    status: dict[str, Any] = {"phase": "Running" if state == "Running" else "Pending"}
    if state == "Running":
        status["containerStatuses"] = [{"ready": True, "state": {"running": {}}}]
    elif state:
        status["containerStatuses"] = [{"ready": False, "state": {"waiting": {"reason": state}}}]
    spec = {"containers": [{"name": "main"}]}
    return _change(at, kind, "pods", namespace, name, spec=spec, status=status)


def _roll_out(namespace: str) -> Iterator[RecordedLine]:
    def deployment(at: float, kind: str, there: int, ready: int) -> RecordedLine:
        status = {"updatedReplicas": there, "readyReplicas": ready, "availableReplicas": ready}
        spec = {"replicas": 2, "selector": {"matchLabels": _LABELS}}
        return _change(at, kind, "deployments.apps", namespace, "web", spec=spec, status=status)

    def endpoints(at: float, *addresses: str) -> RecordedLine:
        found = [{"ip": each} for each in addresses]
        subsets = [{"addresses": found, "ports": [{"port": 80}]}] if found else None
        kind = "MODIFIED" if found else "ADDED"
        return _change(at, kind, "endpoints", namespace, "web", subsets=subsets)

    yield RecordedLine(0.01, "STEP", text="create the shop")
    yield _change(0.02, "ADDED", "configmaps", namespace, "settings", data={"mode": "test"})
    yield _change(
        0.03, "ADDED", "services", namespace, "web",
        spec={"type": "ClusterIP", "clusterIP": "10.96.0.7", "ports": [{"port": 80}]},
    )  # fmt: skip
    yield endpoints(0.031)
    yield deployment(0.04, "ADDED", 0, 0)
    yield deployment(0.06, "MODIFIED", 2, 0)
    for name in ("web-5d9c7-4hxkq", "web-5d9c7-tz8wm"):
        yield _pod(0.06, "ADDED", namespace, name)
        yield _pod(0.09, "MODIFIED", namespace, name, "ContainerCreating")
    yield _pod(0.61, "MODIFIED", namespace, "web-5d9c7-4hxkq", "Running")
    yield endpoints(0.62, "10.244.0.4")
    yield deployment(0.63, "MODIFIED", 2, 1)
    yield _pod(0.83, "MODIFIED", namespace, "web-5d9c7-tz8wm", "Running")
    yield endpoints(0.84, "10.244.0.4", "10.244.0.5")
    yield deployment(0.85, "MODIFIED", 2, 2)


def _start_job(namespace: str, at: float, seconds: float) -> Iterator[RecordedLine]:
    broken, *good = names = ["sleepers-x7k2p", "sleepers-b2c9d", "sleepers-q4m8z"]

    def event(at: float, name: str, reason: str, message: str, count: int) -> RecordedLine:
        about = {"kind": "Pod", "name": broken}
        return _change(
            at, "ADDED" if count == 1 else "MODIFIED", "events", namespace, name,
            type="Warning", reason=reason, message=message, count=count, involvedObject=about,
        )  # fmt: skip

    yield RecordedLine(at, "STEP", text="create the shop > scale it")
    spec = {"completions": 3, "parallelism": 3}
    yield _change(at + 0.002, "ADDED", "jobs.batch", namespace, "sleepers", spec=spec)
    for name in names:
        yield _pod(at + 0.02, "ADDED", namespace, name)
        yield _pod(at + 0.05, "MODIFIED", namespace, name, "ContainerCreating")
    for number, name in enumerate(good):
        since = at + 0.4 + number / 10
        yield _pod(since, "MODIFIED", namespace, name, "Running")
        for line in range(int(seconds)):
            text = f"{line + 1} of 600 s over\n"
            yield RecordedLine(
                since + 0.1 + line, "LOG", namespace=namespace, pod=name, container="main",
                instance=name, text=text,
            )  # fmt: skip
    for count, pull in enumerate((1.3, 3.2, 5.9), 1):
        if pull < seconds:
            yield _pod(at + pull, "MODIFIED", namespace, broken, "ErrImagePull")
            yield event(at + pull, "pull", "Failed", _PULL_FAILED, count)
            yield _pod(at + pull + 0.3, "MODIFIED", namespace, broken, "ImagePullBackOff")
            yield event(at + pull + 0.3, "back-off", "BackOff", _PULLED_AGAIN, count)
