"""What a terminal of 80 columns shows without `-v`: the cause of each failure, and the user's line.

Its width is that of a run without a terminal.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from conformance.runs.inner_runs import run

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait import Cluster, Kwait

CONFTEST = """
import pytest
import pytest_kwait

CAUSE = (
    "sqlalchemy.exc.OperationalError: could not translate host name "
    "postgres.shop-of-the-corner.svc.cluster.local to address: Name or service not known"
)


def pod(name, script, **container):
    main = {"name": "main", "image": "busybox:1.36", "command": ["sh", "-c", script], **container}
    spec = {"terminationGracePeriodSeconds": 1, "containers": [main]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def crash(kwait):
    script = f"echo starting; echo connecting; echo '{CAUSE}' >&2; exit 3"
    # Without it the pod is ready for a moment.
    probe = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1000}
    kwait.create(pod("shop", script, readinessProbe=probe))
    kwait.wait_for_pod_ready("shop", timeout="2m")


@pytest_kwait.environment(scope="module")
def shop(kwait):
    crash(kwait)  # the user's line
    yield kwait
"""

SUITE = """
from conftest import crash, pod


def test_crash(kwait):
    crash(kwait)


def test_probe(kwait):
    probe = {"exec": {"command": ["sh", "-c", "echo no database at postgres:5432; exit 1"]}}
    probe |= {"periodSeconds": 1, "failureThreshold": 1000}
    kwait.create(pod("web", "sleep 600", readinessProbe=probe))
    kwait.wait_for("pod/web", lambda pod: pod["status"]["phase"] == "Running")
    is_unhealthy = lambda found: any(event["reason"] == "Unhealthy" for event in found)
    kwait.wait_for_event("Unhealthy", about="pod/web")
    kwait.wait_for_pod_ready("web", timeout="5s", fail_fast=False)


def test_environment(shop):
    pass
"""

CAUSES = {
    "test_crash": "to address: Name or service not known",
    "test_probe": "Readiness probe failed: no database at postgres:5432",
    "test_environment": "to address: Name or service not known",
}


def join_words(lines: list[str]) -> str:
    """Return the words of a message whose lines were wrapped."""
    return " ".join(" ".join(re.sub(r"^E? *(?:\|  )?", "", line) for line in lines).split())


@pytest.fixture
def sections(kwait_cluster: Cluster, tmp_path: Path) -> dict[str, list[str]]:
    """The lines of each failure of the suite, as pytest shows them."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    status, output = run(tmp_path, kwait_cluster.kubeconfig, SUITE, "--color=no")
    assert status == 1, output
    summary = output.index("short test summary info")
    parts = re.split(r"(?m)^_+ (?:ERROR at setup of )?(test_\w+) _+$", output[:summary])
    return {name: text.splitlines() for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def test_causes_and_lines(kwait: Kwait, sections: dict[str, list[str]]) -> None:
    """The end of a log, a probe's answer and the line of the environment need no option."""
    del kwait
    assert sorted(sections) == sorted(CAUSES)
    for name, lines in sections.items():
        assert CAUSES[name] in join_words(lines), "\n".join(lines)
    for lines in sections.values():
        message = [line for line in lines if line.startswith("E  ")]
        assert len(message) <= 17
        assert [line for line in message if len(line) > 80 and "  try: kubectl" not in line] == []
        # No frame of the plugin, and the user's line above the message.
        frames = [line for line in lines if re.match(r"\S+\.py:\d+: ", line)]
        assert [frame for frame in frames if "pytest_kwait" in frame] == []
    (first, *_) = (
        line for line in sections["test_environment"] if line.startswith((">", "    crash"))
    )
    assert "crash(kwait)  # the user's line" in first
