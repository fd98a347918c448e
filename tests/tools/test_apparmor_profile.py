from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

import pytest

from tests.tools.launchers import run_launcher
from tools import apparmor_profile

if TYPE_CHECKING:
    import subprocess

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="system calls of Linux")


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_launcher("tools.apparmor_profile", *arguments)


def test_user_namespaces_have_no_capabilities() -> None:
    probe = [sys.executable, "-m", "tests.tools.restricted_probe"]
    done = _run("--user", "54321", "--", *probe)
    assert done.returncode == 7, done.stderr
    found = json.loads(done.stdout)
    user = [54321, 54321] if os.geteuid() == 0 else [os.geteuid(), os.getegid()]
    expected = {
        "user": user, "capabilities": 0, "mount_namespace": "EPERM", "second_namespace": "EPERM",
        "mount": "EPERM", "hostname": "EPERM", "chroot": "EPERM", "own_setns": "EPERM", "tcp": "",
    }  # fmt: skip
    if found["user_namespace"]:
        # A machine that refuses them refuses what they would allow.
        assert found["user_namespace"] == found["all_namespaces"]
    else:
        expected |= {"user_namespace": "", "all_namespaces": ""}
    assert {name: found[name] for name in expected} == expected


def test_kwait_says_why_programs_are_not_isolated() -> None:
    script = (
        "import asyncio; from pytest_kwait.simulator.runtimes.processes import runtime; "
        "print(asyncio.run(runtime.detect_isolation()).reason)"
    )
    done = _run("--", sys.executable, "-c", script)
    assert done.returncode == 0, done.stderr
    assert "permitted" in done.stdout


def test_missing_command_is_named() -> None:
    done = _run("--", "no-such-program")
    assert (done.returncode, done.stderr) == (
        1, "no-such-program cannot be run: No such file or directory\n",
    )  # fmt: skip


def test_profile_that_cannot_be_imposed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(SystemExit) as ended:
        apparmor_profile.main(["--", "true"])
    assert ended.value.code == 69
    assert capsys.readouterr().err == (
        "Ubuntu's restriction of user namespaces cannot be imposed: it restricts system calls of "
        "Linux, and this is darwin\n"
    )
