from __future__ import annotations

import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.simulator.server_main import main, server_names

if TYPE_CHECKING:
    from pathlib import Path


def test_the_cluster_ends_with_its_owner_and_takes_its_folder_along(tmp_path: Path) -> None:
    folder = tmp_path / "private"
    folder.mkdir()
    kubeconfig = folder / "kubeconfig"
    owned, owner = os.pipe()
    readable, ready = os.pipe()
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "pytest_kwait.simulator",
            "--nodes=1",
            f"--kubeconfig={kubeconfig}",
            f"--ready-fd={ready}",
            f"--owner-fd={owned}",
            f"--owner-folder={folder}",
        ],
        pass_fds=(owned, ready),
    )
    os.close(owned)
    os.close(ready)
    try:
        with os.fdopen(readable) as file:
            assert file.readline().startswith("ready https://127.0.0.1:")
        assert kubeconfig.stat().st_mode & 0o777 == 0o600
        os.close(owner)
        assert process.wait(5) == 0
        assert not folder.exists()
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--nodes=-1"], "--nodes must not be negative"),
        (["--port=70000"], "--port must be between 0 and 65535"),
        (["--timing=slow"], "invalid choice: 'slow'"),
        (["--user=a="], "--user: 'a=' is neither NAME nor NAME=GROUP,..."),
        (["--token-auth-file=none"], "--token-auth-file: none: No such file or directory"),
    ],
)
def test_bad_arguments_are_told(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--kubeconfig=x", *arguments])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_the_process_does_not_import_what_costs() -> None:
    check = (
        "import sys, pytest_kwait.simulator.server_main, pytest_kwait.simulator.components;"
        "print([name for name in ('kubernetes', 'pytest', 'yaml') if name in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, check=True
    )
    assert found.stdout == "[]\n"


@pytest.mark.parametrize(
    ("address", "hosts"),
    [
        ("127.0.0.1", ["127.0.0.1"]),
        ("192.0.2.1", ["192.0.2.1", "127.0.0.1"]),
        ("::1", ["::1", "127.0.0.1"]),
    ],
)
def test_a_server_is_known_by_its_address_and_loopback(address: str, hosts: list[str]) -> None:
    assert server_names(address) == hosts


def test_a_server_on_all_addresses_is_known_by_loopback_first_and_the_machines_name() -> None:
    hosts = server_names("0.0.0.0")
    assert hosts[0] == "127.0.0.1"
    assert socket.gethostname() in hosts
