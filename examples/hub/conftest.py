"""The images of the hub and its servers, and the hub as tests start from it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kwait import Kwait

APP = Path(__file__).parent / "app"
SERVER = "example.com/hub/server:1"


@pytest.fixture(scope="session")
def kwait_images() -> Mapping[str, object]:
    """Map the images to programs of this folder; a real cluster pulls the images instead."""
    return {
        "example.com/hub/hub": [sys.executable, APP / "hub.py"],
        "example.com/hub/server": [sys.executable, APP / "server.py"],
    }


@pytest.fixture
def hub(kwait: Kwait, request: pytest.FixtureRequest) -> Kwait:
    """Deploy the hub in the test's namespace, with the image of its servers as a parameter."""
    kwait.apply("manifests/hub.yaml", image=getattr(request, "param", SERVER))
    kwait.wait_for_rollout_status("deployment/hub")
    return kwait
