"""Lines and files of recordings for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from pytest_kwait.simulator.protocol.recording.files import (
    VERSION,
    RawLine,
    RecordingHeader,
    encode_recording,
)
from tests.objects import node, pod

if TYPE_CHECKING:
    from pathlib import Path

STARTED = 1_767_225_600.0
NAMESPACE = "t-1"


def recorded_pod(
    revision: int, phase: str = "Pending", name: str = "web", **status: Any
) -> dict[str, Any]:
    return pod(
        name,
        phase,
        container={"name": "c"},
        namespace=NAMESPACE,
        uid=f"u-{name}",
        resourceVersion=str(revision),
        creationTimestamp="2026-01-01T00:00:00Z",
        nodeName="n-1",
        status=status,
    )


def recorded_node() -> dict[str, Any]:
    return node("n-1", uid="u-n", resourceVersion="1")


CRDS = "customresourcedefinitions.apiextensions.k8s.io"


def definition(*, established: bool = True) -> dict[str, Any]:
    """A definition of things in the group example.com."""
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    condition = {"type": "Established", "status": str(established)}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com", "resourceVersion": "2"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": names,
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
        "status": {"acceptedNames": names, "conditions": [condition]},
    }


def thing(**fields: Any) -> dict[str, Any]:
    """A thing of that definition."""
    metadata = {"name": "one", "namespace": NAMESPACE, "uid": "u-one"}
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": metadata}
    return {**thing, "spec": {"size": 3}, **fields}


def change(
    at: float, kind: str, revision: int, obj: dict[str, Any], resource: str = "pods"
) -> RawLine:
    """A line of an object."""
    metadata = obj["metadata"]
    key = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
    raw = msgspec.Raw(msgspec.json.encode(obj))
    return RawLine(at, kind, resource, key, revision, object=raw)


def log(at: float, text: str, instance: str = "i-1") -> RawLine:
    """A line of a log."""
    return RawLine(
        at, "LOG", namespace=NAMESPACE, pod="web", container="c", instance=instance, text=text
    )


def state(running: str = "i-1") -> dict[str, Any]:
    """The status of a container."""
    return {"containerStatuses": [{"name": "c", "containerID": running, "state": {"running": {}}}]}


LINES = (
    change(0.0, "STATE", 1, recorded_node(), "nodes"),
    change(1.0, "ADDED", 5, recorded_pod(5)),
    RawLine(1.0, "STEP", text="open the shop"),
    RawLine(
        1.2,
        "WAIT",
        text="pod t-1/web",
        goal="be ready",
        seconds=3.0,
        outcome="failed early",
        changes=[(0.1, "Pending")],
    ),
    change(2.0, "MODIFIED", 7, recorded_pod(7, "Running", **state())),
    log(2.5, "hello\n"),
    log(3.5, "bye\n"),
    change(4.0, "MODIFIED", 9, recorded_pod(9, "Failed", **state())),
    RawLine(4.2, "FAILURE", text="pod t-1/web is not ready", outcome="call"),
    change(5.0, "DELETED", 11, recorded_pod(11, "Failed")),
)
"""A pod that is created at 1 s, runs from 2 s, fails at 4 s and is deleted at 5 s."""


def recording(path: Path, lines: tuple[RawLine, ...] = LINES, end: float = 6.0) -> Path:
    """Write a recording; return its path."""
    header = RecordingHeader(
        VERSION, STARTED, "test_shop.py::test_it", [NAMESPACE], "v1.36.2", "r1"
    )
    path.write_bytes(encode_recording(header, lines, end))
    return path
