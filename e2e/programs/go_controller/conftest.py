"""The image of the controller, built before the first test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from e2e.programs.go_controller.build import build_controller, find_missing_tools

if TYPE_CHECKING:
    from collections.abc import Mapping


@pytest.fixture(scope="session")
def kwait_images() -> Mapping[str, object]:
    """Map the controller's image to the program, if it can be built."""
    if find_missing_tools():
        return {}
    return {"kwait.test/go-controller:1": [build_controller()]}
