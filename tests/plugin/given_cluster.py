"""Clusters for runs inside of tests: each is what the test says, and there already."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.suite.fakes import FakeCluster

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
from pytest_kwait.errors import ApiError, ClusterError
from tests.plugin.given_cluster import GivenCluster
from tests.suite.fakes import FakeCluster, FakeTransport
"""
_AFTER = """

class Provider:
    name = Cluster.provider
    context = "lab"

    def start(self):
        return Cluster.start()


real = provider.choose_provider, provider.connect
provider.choose_provider = lambda *args, **kwargs: Provider()
provider.connect = Cluster.connect


def pytest_unconfigure():
    provider.choose_provider, provider.connect = real
"""


class GivenCluster(FakeCluster):
    """The cluster of a run inside of a test; the test says how it is started, and what it answers.

    What is written to it is in the file of `FAKE_LOG`, unless `has_log` is false.
    """

    provider = "existing"
    has_log = True

    def __init__(self) -> None:
        log = Path(os.environ["FAKE_LOG"]) if self.has_log else None
        super().__init__(log, time_scale=0.1)
        self._send = self.transport.send
        self.transport.send = self.send  # type: ignore[method-assign] # subclasses say more

    @classmethod
    def start(cls) -> FakeCluster:
        """Return the cluster of a process that starts it."""
        return cls()

    @classmethod
    def connect(cls, *_: Any, **__: Any) -> FakeCluster:
        """Return the cluster for a process that gets its address."""
        return cls()

    def send(self, method: str, path: str, **options: Any) -> Any:
        """Answer a request."""
        return self._send(method, path, **options)


def given(cluster: str) -> str:
    """Return the conftest.

    Args:
        cluster: code that defines `Cluster`, a `GivenCluster`, in each process that uses it.
    """
    return f"{_BEFORE}\n{cluster}{_AFTER}"
