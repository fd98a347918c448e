"""The image of JobSet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from e2e.programs.jobset.build import IMAGE, find_program

if TYPE_CHECKING:
    from collections.abc import Mapping


@pytest.fixture(scope="session")
def kwait_images(kwait_images: Mapping[str, object]) -> Mapping[str, object]:
    """Map its image to the program, if it is built, besides those of the folder above."""
    program = find_program()
    if not program.exists():
        return kwait_images
    jobset = {"command": ["/manager"], "user": "65532:65532", "files": {"/manager": program}}
    return {**kwait_images, IMAGE: jobset}
