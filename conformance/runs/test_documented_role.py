"""A run needs only the role that docs/namespaces.md documents."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from conformance.runs.inner_runs import finish, run, start
from e2e.service_accounts import bind, user_name

if TYPE_CHECKING:
    from pytest_kwait import Kwait

DOCS = Path(__file__).parents[2] / "docs" / "namespaces.md"
JANITOR = "import sys; from pytest_kwait.cli import main; sys.exit(main())"
SUITE = """
def test_passes(kwait):
    assert kwait.create_namespace("peer").get("sa/default")

def test_fails(wait_for_pod_running):
    wait_for_pod_running("none", timeout="2s")
"""


def test_a_run_with_the_documented_role_lacks_nothing(kwait: Kwait, tmp_path: Path) -> None:
    """Workers, evidence of failures and the janitor need no more."""
    documented = re.search(r"```yaml\n(.*?)```", DOCS.read_text(), re.S)
    assert documented is not None
    role = yaml.safe_load(documented[1])
    role["metadata"]["name"] = kwait.namespace
    kwait.create(role)
    bind(kwait, kwait.namespace, everywhere=True)
    path = kwait.kubeconfig_for("default")
    kwait.wait_for_authorization_update(user_name(kwait), "create", "namespaces", timeout="4m")

    run_id = f"role-{kwait.namespace[-8:]}"
    options = [f"--kwait-run-id={run_id}", "--kwait-keep=failed", "--kwait-deletion-wait=0", "-n1"]
    status, output = run(tmp_path, path, SUITE, *options)

    command = [sys.executable, "-P", "-c", JANITOR, "janitor", "--kubeconfig", str(path)]
    command += ["--run-id", run_id, "--kept", "--no-wait"]
    done, removed = finish(start(command, tmp_path))

    assert status == pytest.ExitCode.TESTS_FAILED, output
    assert "1 failed, 1 passed" in output
    assert "not found yet" in output
    # The janitor's report needs rights to list.
    assert "there are no pods" in output
    assert not re.search("forbidden|go on without|cannot be", output, re.I), output
    assert done == 0, removed
    # Others may still be being deleted.
    assert re.search(r"removed [1-3] namespaces? and 0 other objects of 1 run", removed)
