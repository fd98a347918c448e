"""A conftest for runs inside of tests: their cluster is what the test says, and there already."""

from __future__ import annotations

_BEFORE = """
__name__ = "pytest_kwait.pretended"  # its frames count as ours

import json
import os
import sys
import threading
import time
from pathlib import Path

sys.path.append(os.environ["FAKE_PATH"])

import pytest_kwait.clusters.provider as provider
from pytest_kwait.client.responses import Response
from pytest_kwait.errors import ApiError
from tests.suite.fakes import FakeCluster
"""
_AFTER = """

class Provider:
    name = "existing"
    context = "lab"

    def start(self):
        return Cluster()


real = provider.choose_provider, provider.connect
provider.choose_provider = lambda *args, **kwargs: Provider()
provider.connect = lambda *args, **kwargs: Cluster()


def pytest_unconfigure():
    provider.choose_provider, provider.connect = real
"""


def given(cluster: str) -> str:
    """Return the conftest.

    Args:
        cluster: code that defines `Cluster`, made without arguments in each process that uses it.
    """
    return f"{_BEFORE}\n{cluster}{_AFTER}"
