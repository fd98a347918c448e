"""kubectl's exit codes and output equal those recorded on a real cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from conformance.kubectl.script import SCRIPTS, load_script, needs_kubectl, play_script
from conformance.recordings import list_scripts, read_recording

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait.clusters import Cluster


pytestmark = needs_kubectl()


@pytest.mark.parametrize("path", list_scripts(SCRIPTS), ids=lambda path: path.stem)
def test_kubectl_script_equals_recording(
    path: Path, kubectl: Path, kwait_cluster: Cluster, tmp_path: Path
) -> None:
    expected: list[dict[str, Any]] = read_recording(path)
    outcomes = play_script(load_script(path), kwait_cluster.kubeconfig, kubectl, tmp_path, expected)
    different = [
        f"{wanted}\n{outcome}"
        for outcome, wanted in zip(outcomes, expected, strict=True)
        if outcome != wanted
    ]
    assert not different, "\n\n".join([f"{len(different)} differ:", *different])
