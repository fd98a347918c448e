"""The code in README.md and docs/ runs as it is shown.

Tests of a page stand in one folder with the files of the page; a run has many pages. Python that is
no test runs as the body of one, after a few lines that give it what its text speaks of.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from conformance.runs.inner_runs import finish, run, start
from tools import local_clusters
from tools.documentation import PAGES, Block, Kind, matches, read_blocks, read_session

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait import Cluster, Kwait

SLEEP = "containers: [{name: c, image: 'busybox:1.36', command: [sleep, '%s']}]"
JOB = f"""
apiVersion: batch/v1
kind: Job
metadata: {{name: sleepers}}
spec:
  parallelism: 3
  completions: 3
  template: {{spec: {{restartPolicy: Never, {SLEEP}}}}}
"""
pytestmark = pytest.mark.timeout(900)
"""Many runs in a row, each with its own limit."""

FILES = {
    "sleepers.yaml": JOB % "600",
    "job.yaml": JOB % "1",
    "server.yaml": f"""
apiVersion: v1
kind: Pod
metadata: {{name: server}}
spec: {{{SLEEP % 600}}}
""",
    "web.yaml": f"""
apiVersion: apps/v1
kind: StatefulSet
metadata: {{name: web}}
spec:
  serviceName: web
  replicas: 2
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec: {{{SLEEP % 600}}}
""",
}
"""Manifests that pages name without showing them."""

EMBEDDED = {
    "docs/change-objects.md",
    "docs/containers.md",
    "docs/faults.md",
    "docs/flakes.md",
    "docs/locks.md",
    "docs/operators.md",
    "docs/programs.md",
    "docs/shared-operators.md",
    "docs/tutorial.md",
}
"""Pages about what only the embedded cluster has, or that wait for the test that runs them."""

PROGRAMS = {"docs/charts.md": "helm"}
"""Programs that the tests of a page run; they are built by `python -m tools.local_clusters`."""

NEEDED = {"docs/operators.md": "kopf", "docs/shared-operators.md": "kopf"}
"""Packages that the sessions of a page need."""

BODY = """
def test_block_at_line_{line}(kwait, kwait_cluster, kwait_client, tmp_path, monkeypatch):
    import threading

    client, stop = kwait_client, threading.Event()
    {prelude}
{code}
"""
PRELUDES = {
    # Its loader has read KUBECONFIG when it was imported.
    "README.md": "monkeypatch.setattr('kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION',"
    " str(kwait_cluster.kubeconfig)); kwait.apply('sleepers.yaml')",
    "docs/election.md": "operate = lambda context: stop.set()",
    "docs/move.md": "kwait.apply('server.yaml')",
    "docs/programs.md": "images, root = kwait_cluster.images, tmp_path",
    "docs/scheduling.md": "threading.Timer(1, stop.set).start()",
}
"""What the text around a block speaks of."""

CONFTEST = """
import pytest

@pytest.fixture(autouse=True)
def _in_the_folder_of_its_page(request, monkeypatch):
    monkeypatch.chdir(request.path.parent)
"""
"""Files are named as they stand beside the tests."""

NAMESPACES = re.compile(r'"(ci|ci-1|kube-system)"')
"""Namespaces in bodies: a test has one of its own."""


def blocks_of(page: str, *kinds: Kind) -> list[Block]:
    return [block for block in read_blocks(page) if block.kind in kinds]


def pages_with(*kinds: Kind) -> list[str]:
    return [page for page in PAGES if blocks_of(page, *kinds)]


def skip_elsewhere(page: str, cluster: Any) -> None:
    if page in EMBEDDED and cluster.provider != "embedded":
        pytest.skip("needs the embedded cluster")


def write_body(block: Block) -> str:
    """Return a test that runs a block."""
    code = NAMESPACES.sub("kwait.namespace", block.code)
    prelude = PRELUDES.get(block.page, "")
    return BODY.format(line=block.line, prelude=prelude, code=textwrap.indent(code, "    "))


def write_page(page: str, folder: Path) -> int:
    """Write the tests of a page, and the files that it names; return their number."""
    folder.mkdir()
    shown = {block.file: block.code for block in blocks_of(page, Kind.FILE)}
    for name, text in (FILES | shown).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    suite = suite_of(page)
    (folder / f"test_{folder.name}.py").write_text(suite)
    return len(re.findall(r"^(?:    )?def test_", suite, re.M))


def suite_of(page: str) -> str:
    tests = [block.code for block in blocks_of(page, Kind.TESTS)]
    bodies = [write_body(block) for block in blocks_of(page, Kind.BODY)]
    return "\n\n".join(("import pytest\n", *tests, *bodies))


def is_serial(page: str) -> bool:
    """Whether a page has a serial test, which would wait for the end of the one that runs it."""
    return re.search(r"mark\.kwait_(serial|disruptive)", suite_of(page)) is not None


SUITES = [page for page in pages_with(Kind.TESTS, Kind.BODY) if not blocks_of(page, Kind.SESSION)]
SERIAL = [page for page in SUITES if is_serial(page)]
OTHERS = [page for page in SUITES if page not in SERIAL]


@pytest.mark.parametrize(
    "pages",
    [OTHERS[::2], OTHERS[1::2], SERIAL],
    ids=["one half", "the other half", "serial"],
)
def test_documented_tests_pass(
    pages: list[str], kwait_cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each page has a folder of its own; serial tests have a cluster of their own."""
    provider = kwait_cluster.provider
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{local_clusters.folder()}")
    there = [
        page
        for page in pages
        if (page not in EMBEDDED or provider == "embedded")
        and (page not in PROGRAMS or shutil.which(PROGRAMS[page]))
    ]
    if not there:
        pytest.skip("these pages need the embedded cluster")
    numbers = [write_page(page, tmp_path / re.sub(r"\W", "_", page)) for page in there]

    (tmp_path / "conftest.py").write_text(CONFTEST)

    status, output = run(tmp_path, None if pages == SERIAL else kwait_cluster.kubeconfig, "")

    assert status == 0, output
    assert f"{sum(numbers)} passed" in output, output


@pytest.mark.parametrize("page", pages_with(Kind.SESSION))
def test_documented_sessions_print_what_is_shown(
    page: str, kwait_cluster: Cluster, tmp_path: Path
) -> None:
    """Commands run in a folder with the files that the page has shown before."""
    skip_elsewhere(page, kwait_cluster)
    if page in NEEDED:
        pytest.importorskip(NEEDED[page], reason=f"{NEEDED[page]} is not installed")
    for block in blocks_of(page, Kind.FILE, Kind.SESSION):
        if block.file:
            (tmp_path / block.file).write_text(block.code)
            continue
        for command, shown in read_session(block):
            output = run_command(command, tmp_path)
            assert matches(shown, output), f"{page}:{block.line}: $ {command}\n{output}"


def run_command(text: str, folder: Path) -> str:
    """Run pytest in a terminal of 80 columns, without the settings of this run."""
    _, *arguments = shlex.split(text)
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("KWAIT_", "PYTEST_", "GITHUB_"))
    }
    command = [sys.executable, "-P", "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    return finish(start(command, folder, {**environment, "COLUMNS": "80"}))[1]


@pytest.mark.parametrize("page", pages_with(Kind.MANIFEST))
def test_documented_manifests_are_accepted(page: str, kwait: Kwait) -> None:
    """Under names of this test's own, as their kinds may be those of the whole cluster."""
    for block in blocks_of(page, Kind.MANIFEST):
        for number, manifest in enumerate(yaml.safe_load_all(block.code)):
            name = f"{kwait.namespace[-40:]}-{block.line}-{number}"
            kwait.create({**manifest, "metadata": {**manifest["metadata"], "name": name}})


def test_documented_job_runs_in_a_restricted_pod(kwait: Kwait) -> None:
    (block,) = [each for each in read_blocks("docs/ci-files.md") if each.file == "e2e-job.yaml"]
    spec = yaml.safe_load(block.code)["spec"]["template"]["spec"]
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    kwait.patch(f"namespace/{kwait.namespace}", {"metadata": {"labels": labels}})
    (created,) = kwait.create(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "e2e"}, "spec": spec}
    )
    assert created["spec"]["securityContext"]["runAsNonRoot"]
