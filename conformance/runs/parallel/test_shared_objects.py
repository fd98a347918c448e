"""Objects of a session fixture stay as long as another worker or shard may use them."""

from __future__ import annotations

import contextlib
import uuid
from typing import TYPE_CHECKING

import pytest

from conformance.runs.inner_runs import begin, run
from pytest_kwait import wait
from pytest_kwait.suite.cleanup.owned_objects import run_label_value

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait import Kwait

SUITE = """
import os
from pathlib import Path

import pytest
from pytest_kwait import wait

NAME = "NAME-OF-CLASS"
CLASS = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": NAME},
    "value": 1,
}
NOTE = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "note"}}


@pytest.fixture(scope="session")
def addons(kwait_factory):
    # As the documentation of pytest-xdist shows it: one worker makes what all use.
    try:
        Path("maker").touch(exist_ok=False)
    except FileExistsError:
        wait.poll_immediate("50ms", "2m", Path("namespace").exists)
        yield Path("namespace").read_text()
        return
    with kwait_factory("addons") as made:
        made.apply(CLASS, NOTE)
        Path("namespace.new").write_text(made.namespace)
        Path("namespace.new").rename("namespace")
        yield ""
    Path("left").touch()


@pytest.mark.parametrize("number", range(2))
def test_it(kwait, addons, number):
    if addons:
        assert kwait.get("namespace/" + kwait.namespace)
        Path("other").touch()
        wait.poll_immediate("50ms", "2m", Path("left").exists)
        wait.poll_immediate("50ms", "2m", lambda: "WAITS" == "" or Path("over").exists())
        assert kwait.get("configmap/note", namespace=addons)["metadata"]["uid"]
        assert kwait.get(f"priorityclass/{NAME}")["value"] == 1
    elif "WAITS":
        # Other runs do not count a run that has not come to the cluster yet.
        wait.poll_immediate("50ms", "2m", Path("other").exists)
"""


class Shared:
    """Runs that share objects, and whether these are in the cluster."""

    def __init__(self, kwait: Kwait, folder: Path) -> None:
        self.id = f"shared-{uuid.uuid4().hex[:8]}"
        self.kwait, self.cluster, self.folder = kwait, kwait.cluster, folder
        self.suite = SUITE.replace("NAME-OF-CLASS", self.id)

    @property
    def options(self) -> list[str]:
        """The options of the runs."""
        context = self.cluster.context
        return [f"--kwait-run-id={self.id}", *([f"--kwait-context={context}"] if context else [])]

    def left(self) -> list[str]:
        """Return what is left of the runs."""
        selector = {"pytest-kwait/run": run_label_value(self.id)}
        found = [
            item["metadata"]
            for kind in ("namespaces", "priorityclasses", "leases")
            for item in self.kwait.list(kind, selector=selector, namespace="default")
        ]
        return [each["name"] for each in found if "deletionTimestamp" not in each]

    def has_class(self) -> bool:
        """Return whether the shared class exists."""
        classes = self.kwait.list("priorityclasses")
        return self.id in [each["metadata"]["name"] for each in classes]


@pytest.fixture
def shared(kwait: Kwait, tmp_path: Path) -> Shared:
    return Shared(kwait, tmp_path)


def test_worker_leaves_them_to_the_others(shared: Shared) -> None:
    suite = shared.suite.replace('"WAITS"', '""')
    kubeconfig = shared.cluster.kubeconfig
    status, output = run(shared.folder, kubeconfig, suite, "-n2", *shared.options)
    assert status == 0, output
    assert "2 passed" in output
    assert shared.left() == []
    assert not shared.has_class()


def test_shard_leaves_them_to_the_last(shared: Shared) -> None:
    kubeconfig = shared.cluster.kubeconfig
    with contextlib.ExitStack() as stack:
        jobs = []
        for shard in ("1/2", "2/2"):
            options = (*shared.options, f"--kwait-shard={shard}")
            jobs.append(begin(shared.folder, kubeconfig, shared.suite, *options))
            stack.callback(jobs[-1].communicate)
            stack.callback(jobs[-1].kill)
        # Either may be the first.
        wait.poll_immediate("100ms", "4m", lambda: any(job.poll() is not None for job in jobs))
        assert shared.has_class()
        (shared.folder / "over").touch()
        output = [job.communicate(timeout=240)[0] for job in jobs]

    assert [job.returncode for job in jobs] == [0, 0], "\n".join(output)
    assert shared.left() == []
    assert not shared.has_class()
