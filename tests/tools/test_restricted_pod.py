from __future__ import annotations

import json
import os
import platform
import sys

import pytest

from tests.tools.launchers import run_launcher
from tools import restricted_pod

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="system calls of Linux")


def test_command_has_the_context_of_a_restricted_pod() -> None:
    probe = [sys.executable, "-m", "tests.tools.restricted_probe"]
    done = run_launcher("tools.restricted_pod", "--user", "54321", "--", *probe)
    assert done.returncode == 7, done.stderr
    found = json.loads(done.stdout)
    expected = {
        "user": [os.geteuid(), os.getegid()], "capabilities": 0, "no_new_privs": 1,
        "user_namespace": "EPERM", "all_namespaces": "EPERM", "mount_namespace": "EPERM",
        "second_namespace": "EPERM", "mount": "EPERM", "hostname": "EPERM", "chroot": "EPERM",
        "own_setns": "EPERM", "personality": "EPERM", "vsock": "EPERM", "unknown": "ENOSYS",
        "tcp": "",
    }  # fmt: skip
    if os.geteuid() == 0:
        # The user has no entry in /etc/passwd.
        expected |= {"user": [54321, 54321], "bounding": 0, "home": "/"}
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("user", ["0", "-1"])
def test_root_is_no_user_of_a_restricted_pod(capsys: pytest.CaptureFixture[str], user: str) -> None:
    with pytest.raises(SystemExit) as ended:
        restricted_pod.main([f"--user={user}", "--", "true"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        "usage: python -m tools.restricted_pod [--user UID] -- COMMAND ...\n"
        f"python -m tools.restricted_pod: error: argument --user: {user} is not a user other than "
        "root: 1 or more\n"
    )


def test_context_that_cannot_be_imposed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(SystemExit) as ended:
        restricted_pod.main(["--", "true"])
    assert ended.value.code == 69
    assert capsys.readouterr().err == (
        "A restricted pod's security context cannot be imposed: the numbers of system calls are "
        "known for x86_64, aarch64, and this is riscv64\n"
    )
