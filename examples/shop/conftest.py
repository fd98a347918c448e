"""The images of the shop, and the shop as tests start from it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kwait import Kwait

APP = Path(__file__).parent / "app"


@pytest.fixture(scope="session")
def kwait_images() -> Mapping[str, object]:
    """Map the images to programs of this folder; a real cluster pulls the images instead."""
    return {
        "example.com/shop/web": [sys.executable, APP / "web.py"],
        "example.com/shop/invoice": [sys.executable, APP / "invoice.py"],
    }


@pytest.fixture
def shop(kwait: Kwait) -> Kwait:
    """Deploy the shop in the test's namespace; return once all its pods are ready."""
    kwait.apply("manifests/web.yaml")
    kwait.wait_for_rollout_status("deployment/web")
    return kwait
