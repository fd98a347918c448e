"""What a terminal of 80 columns shows of a program that its user may not reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.runs.evidence.test_short_messages import join_words
from conformance.runs.inner_runs import run

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait import Cluster, Kwait

_SUITE = """
import pytest


@pytest.mark.parametrize("name", ["ready", "success"])
def test_denied(kwait, name):
    security = {"runAsUser": 1000}
    main = {"name": "main", "image": "kwait.test/inner/closed", "securityContext": security}
    spec = {"restartPolicy": "Never", "containers": [main]}
    kwait.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec})
    getattr(kwait, f"wait_for_pod_{name}")("web")
"""


@pytest.mark.kwait_skip_unless_programs_isolated("users")
def test_a_short_message_has_the_user_and_the_closed_folder(
    kwait: Kwait, kwait_cluster: Cluster, tmp_path: Path
) -> None:
    if kwait_cluster.provider != "embedded":
        pytest.skip("about image mappings, which only the embedded cluster has")
    closed = tmp_path / "closed"
    closed.mkdir()
    (closed / "serve").touch(0o755)
    closed.chmod(0o700)
    files = {"/srv/closed": closed}
    with kwait_cluster.images.run("kwait.test/inner/closed", "/srv/closed/serve", files=files):
        status, output = run(tmp_path, kwait_cluster.kubeconfig, _SUITE, "--color=no")
    assert status == 1, output
    lines = [line for line in output.splitlines() if line.startswith("E  ")]
    assert [line for line in lines if len(line) > 80 and "  try: kubectl" not in line] == []
    text = 'runAsUser 1000 of container "main" may not enter /srv/closed (mode 0700, owner 0:0)'
    assert join_words(lines).count(text) >= 2
    del kwait
