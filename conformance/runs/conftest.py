"""A folder for what one worker makes and all of them look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A temporary folder of all workers of this run."""
    folder = tmp_path_factory.getbasetemp()
    return folder if worker_id == "master" else folder.parent
