"""Programs whose system calls are intercepted, where pods have no process namespaces."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from e2e.conftest import MAPPINGS, PROGRAMS
from e2e.objects import pod

if TYPE_CHECKING:
    from pytest_kwait import Kwait


pytestmark = [
    pytest.mark.needs(PROGRAMS, MAPPINGS),
    pytest.mark.kwait_skip_unless_programs_isolated,
]

# What intercepts a program is its parent; in a process namespace it would have none.
_KILL_PARENT = """
import os, pathlib, signal, time
killed = pathlib.Path("/data/killed")
if os.getppid() and not killed.exists():
    killed.touch()
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(1000)
pathlib.Path("/data/up").touch()
time.sleep(1000)
"""


def test_a_container_restarts_when_what_intercepts_it_is_killed(kwait: Kwait) -> None:
    """An event says so."""
    container = {
        "name": "main",
        "image": "kwait.test/shop/shell:1",
        "command": [sys.executable, "-c", _KILL_PARENT],
        "readinessProbe": {"exec": {"command": ["test", "-e", "/data/up"]}, "periodSeconds": 1},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    volumes = [{"name": "data", "emptyDir": {}}]
    spec: dict[str, Any] = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 1,
        "volumes": volumes,
    }
    kwait.create(pod("web", container, **spec))
    kwait.wait_for_pod_ready("web")
    [status] = kwait.get("pod/web")["status"]["containerStatuses"]
    if not status["restartCount"]:
        pytest.skip("pods have process namespaces")
    assert status["lastState"]["terminated"]["exitCode"] == 137
    found = [one["message"] for one in kwait.events() if one["reason"] == "InterceptorKilled"]
    assert found == [
        'The process that intercepts system calls of container "main" was ended by SIGKILL, '
        "and the container with it"
    ]
