"""Mappings of images: from the fixture, from options, by all workers of a run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from conformance.runs import inner_runs
from e2e.conftest import MAPPINGS

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait import Cluster

_SUITE = """
import pytest

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {
    "restartPolicy": "Never", "containers": [{"name": "c", "image": "kwait.test/inner/hello:1"}]}}


@pytest.fixture(scope="session")
def kwait_images(worker_id):
    return {"kwait.test/inner/hello:*": ["/bin/echo", WORDS]}


@pytest.mark.parametrize("number", range(4))
def test_it(kwait, wait_for_pod_success, number):
    kwait.create(POD)
    wait_for_pod_success("p")
    assert kwait.logs("p") == EXPECTED
"""


def _suite(name: str, words: str, expected: str) -> str:
    """Return a suite with an image of its own."""
    suite = _SUITE.replace("hello", name)
    return suite.replace("WORDS", words).replace("EXPECTED", expected)


@pytest.mark.needs(MAPPINGS)
def test_all_workers_share_a_mapping(kwait_cluster: Cluster, tmp_path: Path) -> None:
    """Workers of pytest-xdist make the same mapping, which counts as one."""
    suite = _suite("shared", '"hello"', '"hello\\n"')
    status, said = inner_runs.run(tmp_path, kwait_cluster.kubeconfig, suite, "-n2")
    assert (status, "4 passed" in said) == (0, True), said


@pytest.mark.needs(MAPPINGS)
def test_an_option_replaces_the_fixtures_mapping(kwait_cluster: Cluster, tmp_path: Path) -> None:
    """A run can use another program, for example with a debugger."""
    suite = _suite("replaced", '"hello"', '"from the option\\n"')
    option = "--kwait-image=kwait.test/inner/replaced:*=/bin/echo 'from the option'"
    status, said = inner_runs.run(tmp_path, kwait_cluster.kubeconfig, suite, option, "-k0")
    assert (status, "1 passed" in said) == (0, True), said


@pytest.mark.needs(MAPPINGS)
def test_workers_that_differ_are_refused(kwait_cluster: Cluster, tmp_path: Path) -> None:
    """A pattern has one program in a cluster; the error names what differs."""
    suite = _suite("differing", "worker_id", '""')
    status, said = inner_runs.run(tmp_path, kwait_cluster.kubeconfig, suite, "-n2")
    assert status == 1
    assert (
        'the pattern "kwait.test/inner/differing:*" is mapped already, with the command /bin/echo'
    ) in said


_IGNORED = """
import pytest


@pytest.fixture(scope="session")
def kwait_images():
    return {"kwait.test/inner/other:*": ["/bin/true"]}


def test_it(kwait_cluster):
    assert kwait_cluster.nodes
"""


def test_a_cluster_that_pulls_its_images_says_so_once(
    kwait_cluster: Cluster, tmp_path: Path
) -> None:
    """A suite with mappings runs unchanged on a real cluster."""
    status, said = inner_runs.run(tmp_path, kwait_cluster.kubeconfig, _IGNORED)
    line = (
        "kwait: 1 image mapping is not used (kwait.test/inner/other:*): "
        f"{kwait_cluster.server} is not an embedded cluster, its nodes pull these images"
    )
    assert status == 0, said
    assert said.count(line) == (0 if kwait_cluster.provider == "embedded" else 1)


_COVERED = """
import pytest


def test_it(kwait_cluster, kwait, wait_for_pod_success):
    kwait_cluster.images.run(
        "kwait.test/inner/writer", [PYTHON, "-c", "open('report', 'w').write('done')"],
        workdir=FOLDER, writable=[FOLDER])
    kwait.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {
        "restartPolicy": "Never",
        "containers": [{"name": "c", "image": "kwait.test/inner/writer"}]}})
    wait_for_pod_success("p")
"""


@pytest.mark.needs(MAPPINGS)
def test_a_writable_folder_takes_reports(kwait_cluster: Cluster, tmp_path: Path) -> None:
    """Coverage data, for example, outlives the container in a folder that is named."""
    suite = _COVERED.replace("PYTHON", repr(sys.executable)).replace("FOLDER", repr(str(tmp_path)))
    status, said = inner_runs.run(tmp_path, kwait_cluster.kubeconfig, suite)
    assert status == 0, said
    assert (tmp_path / "report").read_text() == "done"
