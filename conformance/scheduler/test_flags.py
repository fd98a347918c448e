"""The flags of kwait-scheduler are those of kube-scheduler, or refused with a reason.

Needs the built programs: `python -m tools.controlplane build`.
"""

from __future__ import annotations

import re
import subprocess

import pytest

from pytest_kwait.scheduler.command.flags import FLAGS, NOT_SUPPORTED
from tools.controlplane import assets
from tools.controlplane.errors import UnavailableError

_OWN = {"address", "port"}
"""Flags of earlier versions of kube-scheduler."""


def test_every_flag_of_kube_scheduler_is_known() -> None:
    try:
        program = assets.build() / "kube-scheduler"
    except UnavailableError as missing:
        pytest.skip(str(missing))
    shown = subprocess.run([program, "--help"], capture_output=True, text=True, check=True)
    theirs = set(re.findall(r"(?m)^ +(?:-\w, )?--([a-z0-9-]+)", shown.stdout))
    ours = {flag.name for flag in FLAGS}
    assert (ours - _OWN) | set(NOT_SUPPORTED) == theirs | {"v"}
