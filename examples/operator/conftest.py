"""The image of the controller, its definition, and the controller as tests start from it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import pytest_kwait

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_kwait import Kwait

CONTROLLER = Path(__file__).parent / "controller" / "controller.py"


@pytest.fixture(scope="session")
def kwait_images() -> Mapping[str, object]:
    """Map the image to the program; a real cluster pulls the image instead."""
    return {"example.com/page-controller": [sys.executable, CONTROLLER]}


@pytest_kwait.environment(scope="run")
def definition(kwait: Kwait) -> Iterator[None]:
    """Serve Pages until the end of the run: the definition belongs to the whole cluster."""
    kwait.apply("manifests/definition.yaml")
    kwait.wait_for_crd_established("pages.docs.example.com")
    yield


@pytest.fixture
def controller(kwait: Kwait, definition: object) -> Kwait:
    """Deploy the controller in the test's namespace; return once it is ready."""
    kwait.apply("manifests/controller.yaml")
    kwait.wait_for_deployment_complete("page-controller")
    return kwait
