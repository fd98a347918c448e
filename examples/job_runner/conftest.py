"""The runner as tests use it: with the client of the run, in the test's namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .runner import Runner

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait import Kwait


@pytest.fixture
def runner(kwait: Kwait, kwait_client: ApiClient) -> Runner:
    """Run commands by the shell of busybox, in the namespace of the test."""
    return Runner(kwait_client, kwait.namespace, "busybox:1.36")
