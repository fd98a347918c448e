"""The flags of kwait-scheduler are those of kube-scheduler, or refused with a reason.

Needs the built programs: `python -m tools.controlplane build`.
"""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from e2e.scheduler_command.programs import command_line
from pytest_kwait.scheduler.command.flags import FLAGS, NOT_SUPPORTED
from tools.controlplane import assets
from tools.controlplane.errors import UnavailableError

if TYPE_CHECKING:
    from pathlib import Path

_OWN = {"address", "port"}
"""Flags of earlier versions of kube-scheduler."""


@pytest.fixture(scope="module")
def kube_scheduler() -> Path:
    """Return the built program."""
    try:
        return assets.build() / "kube-scheduler"
    except UnavailableError as missing:
        pytest.skip(str(missing))


def test_every_flag_of_kube_scheduler_is_known(kube_scheduler: Path) -> None:
    shown = subprocess.run([kube_scheduler, "--help"], capture_output=True, text=True, check=True)
    theirs = set(re.findall(r"(?m)^ +(?:-\w, )?--([a-z0-9-]+)", shown.stdout))
    ours = {flag.name for flag in FLAGS}
    assert (ours - _OWN) | set(NOT_SUPPORTED) == theirs | {"v"}


def test_all_facts_of_the_version_have_the_form_of_kube_schedulers(kube_scheduler: Path) -> None:
    shown = [
        subprocess.run([*program, "--version=raw"], capture_output=True, text=True, check=True)
        for program in ([kube_scheduler], command_line())
    ]
    theirs, ours = (re.sub(r'"[^"]*"', "…", answer.stdout) for answer in shown)
    assert ours == theirs


@pytest.mark.parametrize("value", ["maybe", "vX", "v1.36", "v1.36.02", "v1.36.2-", "v1.36.2+a_b"])
def test_an_invalid_version_has_the_error_of_kube_schedulers(
    kube_scheduler: Path, value: str
) -> None:
    errors = [
        subprocess.run(
            [*program, f"--version={value}"], capture_output=True, text=True, check=False
        ).stderr.splitlines()[-1]
        for program in ([kube_scheduler], command_line())
    ]
    assert errors[1] == errors[0]
