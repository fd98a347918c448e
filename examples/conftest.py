"""What this repository adds to its examples; a copy of an example needs nothing of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.clusters.images import read_fixture
from tools.controlplane.cluster import FOLDER_VARIABLE
from tools.controlplane.program_images import import_images

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kwait import Cluster


@pytest.fixture(autouse=True)
def _images_on_nodes(kwait_cluster: Cluster, kwait_images: Mapping[str, object]) -> None:
    """Import images of the mapped programs into the nodes of a real cluster."""
    if not kwait_images or kwait_cluster.provider == "embedded":
        return
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        pytest.skip("only `python -m tools.controlplane run` makes images of these programs")
    import_images(Path(folder), read_fixture(kwait_images))
