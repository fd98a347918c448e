"""What this repository adds to its examples; a copy of an example needs nothing of it."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _images_of_programs(images_on_nodes: bool) -> None:
    """Skip where the nodes have no images of the mapped programs."""
    if not images_on_nodes:
        pytest.skip("only `python -m tools.controlplane run` makes images of these programs")
