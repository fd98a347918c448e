"""Many runs on one cluster: namespace limits, retries, failing namespaces."""

from __future__ import annotations

import json
import re
import uuid
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.client import CoreV1Api
from kubernetes.client.exceptions import ApiException

from conformance.runs.inner_runs import begin, run
from e2e.cluster.webhook_server import Server, deny, serving, webhook
from pytest_kwait import wait
from pytest_kwait.suite.cleanup.owned_objects import run_label_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pytest_kwait import Kwait

LIVING = """
from pathlib import Path
from pytest_kwait import wait

def test_it(kwait):
    Path("begun").touch()
    wait.poll_immediate("50ms", "4m", Path("end").exists)
"""
COUNTING = """
import json
import time
from pathlib import Path

import pytest
from pytest_kwait import wait

@pytest.fixture(autouse=True)
def together(request):
    # All ask at the same time, however long their workers took to begin.
    Path(f"begun-{request.node.callspec.id}").touch()
    wait.poll_immediate("50ms", "4m", lambda: len(list(Path().glob("begun-*"))) == 3)

@pytest.mark.parametrize("number", range(3))
def test_it(kwait, number):
    # Two of them are there for as long as the third might come.
    time.sleep(4.5 if number < 2 else 0)
    own = kwait.get(f"namespace/{kwait.namespace}")["metadata"]
    run = {"pytest-kwait/run": own["labels"]["pytest-kwait/run"]}
    with open("seen", "a") as file:
        print(json.dumps([own["creationTimestamp"], len(kwait.list("namespaces", selector=run))]),
              file=file)
"""
# As pytest-rerunfailures: until it passes.
POLL_AGAIN = """
from _pytest.runner import runtestprotocol

def pytest_runtest_protocol(item, nextitem):
    for attempt in range(2):
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        if not any(report.failed for report in reports):
            break
        item._initrequest()
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    return True
"""
FLAKY = """
from pathlib import Path

NOTE = {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "note", "finalizers": ["example.com/hold"]}}

def test_it(kwait):
    with open("spaces", "a") as file:
        print(kwait.namespace, file=file)
    kwait.create(NOTE)
    first, *others = Path("spaces").read_text().split()
    assert others, "the first time"
    assert kwait.namespace != first
    # It cannot be gone yet.
    assert kwait.get(f"namespace/{first}")["metadata"]["deletionTimestamp"]
"""


def test_concurrent_runs_with_the_same_id(kwait: Kwait, tmp_path: Path) -> None:
    """The later one ends with one message; the earlier one is not affected."""
    path = kwait.cluster.kubeconfig
    options = [f"--kwait-run-id=twice-{uuid.uuid4().hex[:8]}", "--kwait-heartbeat=1s"]
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    first = begin(one, path, LIVING, *options)
    try:
        wait.poll_immediate("50ms", "4m", (one / "begun").exists)
        status, said = run(other, path, "def test_it(kwait): pass\n", *options)
        assert status == pytest.ExitCode.USAGE_ERROR, said
        assert said.count("two runs go by the id 'twice-") == 1
        assert "and that is still going on (Lease default/kwait-twice-" in said
        (one / "end").touch()
        said, _ = first.communicate(timeout=240)
        assert first.returncode == pytest.ExitCode.OK, said
    finally:
        first.kill()
        first.wait()


def test_how_many_and_how_quickly_is_that_of_the_run(kwait: Kwait, tmp_path: Path) -> None:
    """Three workers would create three namespaces at once."""
    path = kwait.cluster.kubeconfig
    bounds = ["--kwait-namespace-limit=2", "--kwait-namespace-rate=0.5", "-n3"]
    status, said = run(tmp_path, path, COUNTING, *bounds, "--kwait-deletion-wait=0")

    assert status == pytest.ExitCode.OK, said
    seen = [json.loads(line) for line in (tmp_path / "seen").read_text().splitlines()]
    assert max(number for _, number in seen) <= 2
    made = sorted(datetime.fromisoformat(moment).timestamp() for moment, _ in seen)
    # Times of the server are whole seconds.
    assert all(later - earlier >= 1 for earlier, later in pairwise(made))


def test_a_test_that_is_run_again_does_not_meet_its_predecessor(
    kwait: Kwait, tmp_path: Path
) -> None:
    """The namespace of the first attempt has a finalizer and is still being deleted."""
    (tmp_path / "conftest.py").write_text(POLL_AGAIN)
    path = kwait.cluster.kubeconfig
    core: Any = CoreV1Api(kwait.client)
    status, said = run(tmp_path, path, FLAKY, "--kwait-deletion-wait=0")
    try:
        assert status == pytest.ExitCode.OK, said
    finally:
        # Remove the finalizers at the end of this test.
        for name in (tmp_path / "spaces").read_text().split():
            core.patch_namespaced_config_map("note", name, {"metadata": {"finalizers": None}})


@pytest.fixture
def refuse(kwait: Kwait) -> Iterator[Callable[[str, str], None]]:
    """Refuse a run's objects by a webhook, selected by the run's id and the kind."""
    with serving(Server(deny)) as server:

        def refuse(run: str, plural: str) -> None:
            labels = {"pytest-kwait/run": run_label_value(run)}
            configuration = webhook(server, kwait.namespace, plural=plural)
            configuration["webhooks"][0]["namespaceSelector"] = {"matchLabels": labels}
            kwait.create(configuration)
            core = CoreV1Api(kwait.client)

            def refuses() -> bool:
                # Other kinds cannot be tested before a namespace exists.
                probe: Any = {"metadata": {"name": run, "labels": labels}}
                try:
                    core.create_namespace(probe, dry_run="All")
                except ApiException as error:
                    return "not on a Sunday" in str(error.body)
                return plural != "namespaces"

            wait.poll_immediate("200ms", "4m", refuses)

        yield refuse


def test_a_webhook_that_refuses_namespaces(
    kwait: Kwait, tmp_path: Path, refuse: Callable[[str, str], None]
) -> None:
    """Tests that need one fail with the reason; all others run."""
    suite = """
def test_plain(): pass
def test_client(kwait_client): pass
def test_needy(kwait): pass
"""
    path, run_id = kwait.cluster.kubeconfig, f"no-{kwait.namespace[-8:]}"
    refuse(run_id, "namespaces")
    status, said = run(tmp_path, path, suite, f"--kwait-run-id={run_id}", "--tb=short")

    assert status == pytest.ExitCode.TESTS_FAILED, said
    assert "2 passed, 1 error" in said
    line = " ".join(said.replace("\nE ", "\n").split())
    assert "the cluster refused namespace t-needy-" in line
    assert "which test_suite.py::test_needy needs: POST /api/v1/namespaces: 4" in line
    assert "denied the request: not on a Sunday" in line


def test_a_namespace_that_never_gets_ready(
    kwait: Kwait, tmp_path: Path, refuse: Callable[[str, str], None]
) -> None:
    """The message precedes the test's timeout, and the namespace is deleted."""
    # Short, but long enough for a slow machine.
    slow = "from pytest_kwait.plugin import timeout\ntimeout._RESERVED_PART = 0.7\n"
    suite = f"{slow}def test_it(kwait): pass\n"
    path, run_id = kwait.cluster.kubeconfig, f"bare-{kwait.namespace[-8:]}"
    refuse(run_id, "serviceaccounts")
    options = [f"--kwait-run-id={run_id}", "--timeout=10", "--kwait-deletion-wait=30s"]
    status, said = run(tmp_path, path, suite, *options)

    assert status == pytest.ExitCode.TESTS_FAILED, said
    line = " ".join(said.replace("\nE ", "\n").split())
    assert re.search(
        "serviceaccount (t-it-[a-z0-9]{5}/)?default did not get created within 2", line
    ), line
    assert "namespace t-it-" in line
    assert "to end before the test's own timeout of 10s (pytest-timeout)" in line
    assert "Timeout (>" not in said
    labels = {"pytest-kwait/run": run_label_value(run_id)}
    assert kwait.list("namespaces", selector=labels) == []
