"""The image of the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from e2e.programs.go_controller.build import find_program

if TYPE_CHECKING:
    from collections.abc import Mapping


@pytest.fixture(scope="session")
def kwait_images() -> Mapping[str, object]:
    """Map the controller's image to the program, if it is built."""
    program = find_program()
    return {"kwait.test/go-controller:1": [program]} if program.exists() else {}
