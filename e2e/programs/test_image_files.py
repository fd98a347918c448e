"""Files of the machine stand at the paths of an image."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from e2e.conftest import MAPPINGS
from e2e.objects import pod

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_kwait import Cluster, Kwait


@pytest.mark.kwait_skip_unless_programs_isolated
@pytest.mark.needs(MAPPINGS)
def test_files_stand_at_paths_of_the_image(
    kwait: Kwait,
    kwait_cluster: Cluster,
    wait_for_pod_success: Callable[..., object],
    tmp_path: Path,
) -> None:
    """A manifest names paths that its image has and the machine has not."""
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "greeting").write_text("from the file\n")
    files: dict[str, str | Path] = {"/greet": "/bin/sh", "/opt/shop/conf": tmp_path / "conf"}
    files["/greeting"] = tmp_path / "conf" / "greeting"
    with kwait_cluster.images.run("kwait.test/inner/files", "/greet", files=files):
        script = "mv /greeting /tmp && cat /opt/shop/conf/greeting /tmp/greeting"
        command = ["/greet", "-c", script]
        container = {"name": "c", "image": "kwait.test/inner/files", "command": command}
        kwait.create(pod("p", container, restartPolicy="Never"))
        wait_for_pod_success("p")
        assert kwait.logs("p") == "from the file\n" * 2
