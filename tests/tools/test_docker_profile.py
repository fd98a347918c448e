from __future__ import annotations

import json
import platform
import sys

import pytest

from tests.tools.launchers import run_launcher
from tools import docker_profile

_PROBE = """
import ctypes, errno, json, os, sys, threading
from pytest_kwait.simulator.runtimes.processes import system_calls

def call(function, *arguments):
    try:
        return function(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]

def get_descriptor():
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall(438, -1, 0, 0)  # pidfd_getfd
    return errno.errorcode[ctypes.get_errno()]

thread = threading.Thread(target=lambda: None)
thread.start()
thread.join()
child = os.fork() or os._exit(0)
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps({
    "forked": os.waitpid(child, 0)[1],
    "unshare": call(system_calls.unshare, system_calls.CLONE_NEWNS),
    "mount": call(system_calls.mount, None, "/", None, 0),
    "get_descriptor": get_descriptor(),
    "clone": call(system_calls.clone, system_calls.CLONE_NEWUSER),
    "capabilities": int(status["CapEff"], 16),
    "filters": int(status["Seccomp"]),
}))
sys.exit(7)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="system calls of Linux")
def test_command_has_neither_namespaces_nor_mounts_nor_most_capabilities() -> None:
    done = run_launcher("tools.docker_profile", "--", sys.executable, "-c", _PROBE)
    assert done.returncode == 7, done.stderr
    found = json.loads(done.stdout)
    assert found.pop("capabilities") in (0, 0xA80425FB)
    assert found == {
        "forked": 0, "unshare": "EPERM", "mount": "EPERM", "clone": "EPERM",
        "get_descriptor": "EPERM", "filters": 2,
    }  # fmt: skip


@pytest.mark.skipif(sys.platform != "linux", reason="system calls of Linux")
def test_missing_command_is_named() -> None:
    done = run_launcher("tools.docker_profile", "--", "no-such-program")
    assert (done.returncode, done.stderr) == (
        1, "no-such-program cannot be run: No such file or directory\n",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("system", "machine", "reason"),
    [
        ("darwin", "arm64", "it restricts system calls of Linux, and this is darwin"),
        (
            "linux",
            "riscv64",
            "the numbers of system calls are known for x86_64, aarch64, and this is riscv64",
        ),
    ],
)
def test_command_is_not_run_where_the_profile_cannot_be_imposed(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    system: str,
    machine: str,
    reason: str,
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    with pytest.raises(SystemExit) as ended:
        docker_profile.run(["true"])
    assert ended.value.code == 69
    assert capsys.readouterr().err == f"Docker's default profile cannot be imposed: {reason}\n"


def test_refusal_of_the_kernel_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse() -> None:
        raise OSError(1, "Operation not permitted", "seccomp")

    monkeypatch.setattr(docker_profile, "impose_profile", refuse)
    with pytest.raises(SystemExit) as ended:
        docker_profile.run(["true"])
    assert ended.value.code == 69
    assert capsys.readouterr().err == (
        "Docker's default profile cannot be imposed: [Errno 1] Operation not permitted: 'seccomp'\n"
    )
