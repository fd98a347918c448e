"""kubectl's streams by SPDY, as those of every client that asks for no WebSocket."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest

from conformance.kubectl.script import needs_kubectl
from e2e.objects import container, pod

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_kwait import Kwait

_ENVIRONMENT = {
    "KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false",
    "KUBECTL_PORT_FORWARD_WEBSOCKETS": "false",
}
_SCRIPT = (
    "mkdir /tmp/www; echo page >/tmp/www/index.html; httpd -p 8080 -h /tmp/www; "
    "while read line; do echo got $line; done; sleep 600"
)

pytestmark = needs_kubectl()


@pytest.fixture
def arguments(kwait: Kwait, kubectl: Path) -> list[str]:
    """The first arguments of kubectl's commands; the pod `web` runs."""
    kwait.create(pod("web", container(script=_SCRIPT, stdin=True)))
    kwait.wait_for_pods_running_ready(1)
    return [str(kubectl), f"--kubeconfig={kwait.cluster.kubeconfig}", f"-n={kwait.namespace}"]


@pytest.fixture
def run_kubectl(arguments: list[str]) -> Callable[..., tuple[int, bytes, str]]:
    """Runs kubectl; returns its exit code, output and errors."""

    def run(*more: str, stdin: bytes = b"") -> tuple[int, bytes, str]:
        done = subprocess.run(
            [*arguments, *more], input=stdin, capture_output=True, check=False, timeout=300,
            env=os.environ | _ENVIRONMENT,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr.decode()

    return run


def test_exec_by_spdy(run_kubectl: Callable[..., tuple[int, bytes, str]]) -> None:
    """Input, both outputs and the exit code."""
    script = "cat; echo error >&2; exit 3"
    assert run_kubectl("exec", "-i", "web", "--", "sh", "-c", script, stdin=b"in") == (
        3,
        b"in",
        "error\ncommand terminated with exit code 3\n",
    )
    much = b"x" * 3_000_000
    assert run_kubectl("exec", "-i", "web", "--", "cat", stdin=much) == (0, much, "")
    code, output, error = run_kubectl("exec", "web", "--", "nothing")
    assert (code, output) == (1, b"")
    assert 'exec: "nothing": executable file not found in $PATH' in error


def test_attach_by_spdy(
    run_kubectl: Callable[..., tuple[int, bytes, str]], arguments: list[str]
) -> None:
    """What the program prints about the input that it gets."""
    with subprocess.Popen(
        [*arguments, "attach", "-qi", "web"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env=os.environ | _ENVIRONMENT,
    ) as attached:  # fmt: skip
        assert attached.stdin is not None
        assert attached.stdout is not None
        attached.stdin.write(b"line\n")
        attached.stdin.flush()
        try:
            assert attached.stdout.readline() == b"got line\n"
        finally:
            attached.kill()


def test_files_are_copied_by_spdy(
    run_kubectl: Callable[..., tuple[int, bytes, str]], tmp_path: Path
) -> None:
    """To a container and back."""
    here, there, back = tmp_path / "here", "web:/tmp/there", tmp_path / "back"
    here.write_bytes(bytes(range(256)) * 1000)
    assert run_kubectl("cp", str(here), there)[0] == 0
    assert run_kubectl("cp", there, str(back))[0] == 0
    assert back.read_bytes() == here.read_bytes()


def test_ports_are_forwarded_by_spdy(arguments: list[str]) -> None:
    """Several connections, one after the other."""
    with subprocess.Popen(
        [*arguments, "port-forward", "pod/web", ":8080"], stdout=subprocess.PIPE,
        env=os.environ | _ENVIRONMENT,
    ) as forward:  # fmt: skip
        assert forward.stdout is not None
        try:
            address = forward.stdout.readline().split()[2].decode()
            for _ in range(3):
                with urlopen(f"http://{address}/", timeout=60) as answer:
                    assert answer.read() == b"page\n"
        finally:
            forward.kill()
