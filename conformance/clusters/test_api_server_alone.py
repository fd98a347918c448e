"""A run on an embedded cluster that is an API server alone, whatever cluster this suite runs on."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from conformance.runs.inner_runs import finish, start

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SUITE = """
import pytest
from pytest_kwait import ApiError
from pytest_kwait.client.session import ApiSession

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
       "spec": {"containers": [{"name": "c", "image": "busybox"}]}}

def test_alone(kwait):
    assert kwait.cluster.nodes == ()
    assert ApiSession.of(kwait.client).time_scale == 0.1
    with pytest.raises(ApiError, match="serviceaccounts .default. not found"):
        kwait.get("serviceaccount/default")
    (pod,) = kwait.create(POD)
    assert "serviceAccountName" not in pod["spec"]
    assert pod["status"]["phase"] == "Pending"

@pytest.mark.kwait(timeout="1s")
def test_waits(kwait):
    kwait.create(POD)
    kwait.wait_for("pod/p", "jsonpath={.spec.schedulerName}=default-scheduler")
"""


CLI = "import sys; from pytest_kwait.cli import main; sys.exit(main())"


@pytest.fixture(scope="module")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of an API server alone, started by `kwait up`."""
    folder = tmp_path_factory.mktemp("api-server")
    kubeconfig = folder / "kubeconfig"
    command = [sys.executable, "-P", "-c", CLI]
    where = ["--kubeconfig", str(kubeconfig)]
    # A process of its own: a fork would wait for the end of what it has started.
    subprocess.run([*command, "up", "--api-only", "--detach", *where], check=True, timeout=120)
    yield kubeconfig
    status, said = finish(start([*command, "down", *where], folder))
    assert status == 0, said


def run(folder: Path, *options: str) -> str:
    """Run the suite in a folder; return its output."""
    (folder / "test_suite.py").write_text(SUITE)
    command = [sys.executable, "-P", "-m", "pytest", "-p", "no:cacheprovider"]
    environment = {name: value for name, value in os.environ.items() if name[:6] != "KWAIT_"}
    status, output = finish(start([*command, *options], folder, environment))
    assert status == 0, output
    return output


def test_a_suite_runs_on_an_api_server_alone(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nkwait_api_only = true\n")
    shown = run(tmp_path, "--kwait-cluster=embedded")
    assert "api_only=true (ini kwait_api_only)" in shown
    assert "2 passed" in shown


@pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["alone", "in a worker"])
def test_a_suite_runs_on_an_api_server_alone_that_was_started_before(
    tmp_path: Path, api_server: Path, workers: tuple[str, ...]
) -> None:
    options = (f"--kwait-kubeconfig={api_server}", "--kwait-namespace-limit=1", *workers)
    for _ in range(2):
        shown = run(tmp_path, *options)
        assert "2 passed" in shown
        # Earlier namespaces stay in phase Terminating: neither this run nor the janitor can help.
        lines = [line for line in shown.splitlines() if line.startswith("kwait: ")]
        words = [line.split()[1].partition("=")[0] for line in lines]
        assert words == ["existing", "kubeconfig", "waited"]
