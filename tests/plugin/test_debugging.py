from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from tests.forked_python import ForkedPython

if TYPE_CHECKING:
    from pathlib import Path

FakeCluster = Callable[[], str]

PROMPT = "(Pdb) "


class Session:
    """A run of pytest with answered prompts.

    Args:
        folder: where its tests are.
        options: for pytest.
    """

    def __init__(self, folder: Path, *options: str) -> None:
        self._process = ForkedPython(
            [sys.executable, "-P", "-m", "pytest", "-p", "no:cacheprovider", *options],
            cwd=folder,
            env={**os.environ, "TERM": "dumb"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def until_prompt(self) -> str:
        """Return what it says up to its next prompt."""
        assert self._process.stdout is not None
        said = b""
        while not said.endswith(PROMPT.encode()):
            byte = self._process.stdout.read(1)
            assert byte, said.decode()
            said += byte
        return said.decode()

    def say(self, command: str) -> None:
        """Answer a prompt."""
        assert self._process.stdin is not None
        self._process.stdin.write(command.encode() + b"\n")
        self._process.stdin.flush()

    def until_over(self) -> str:
        """Return the rest of what it says."""
        rest: bytes = self._process.communicate(timeout=60)[0]
        return rest.decode()

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()


@pytest.fixture
def started(pytester: pytest.Pytester) -> Iterator[Callable[..., Session]]:
    sessions: list[Session] = []

    def start(*options: str) -> Session:
        sessions.append(Session(pytester.path, *options))
        return sessions[-1]

    yield start
    for session in sessions:
        session.close()


def test_deadlines_stand_still_at_the_prompt(
    pytester: pytest.Pytester, fake_cluster: FakeCluster, started: Callable[..., Session]
) -> None:
    pytester.makepyfile(
        """
        import threading
        import time

        from pytest_kwait.engine.active_waits import ACTIVE_WAITS

        NOTE = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}

        def left():
            return ACTIVE_WAITS.waits()[0].deadline.remaining

        def test_it(kwait, wait_for_job_complete):
            def wait():
                kwait.wait_for("configmap/x", "create", timeout="60s")

            thread = threading.Thread(target=wait)
            thread.start()
            while not ACTIVE_WAITS.waits():
                time.sleep(0.01)
            breakpoint()
            assert 50 < left() < 60
            kwait.create(NOTE)
            thread.join()
        """
    )
    session = started()
    session.until_prompt()
    session.say("before, began = left(), time.monotonic()")
    session.until_prompt()
    time.sleep(1.0)  # noqa: TID251 - a pause of the user, in real time
    session.say("time.monotonic() - began - (before - left()) > 0.99")
    assert session.until_prompt() == f"True\n{PROMPT}"
    # Commands at the prompt use a running clock.
    session.say("wait_for_job_complete('typed', timeout='0.1s')")
    typed = " ".join(session.until_prompt().split())
    assert re.match(
        r"\*\*\* pytest_kwait\.errors\.WaitTimeout: job t-it-[a-z0-9]{5}/typed "
        "did not become complete within 100ms: not found yet awaited ",
        typed,
    )
    session.say("c")
    output = session.until_over()
    assert "1 passed" in output, output


def test_namespace_exists_during_the_prompt(
    pytester: pytest.Pytester,
    fake_cluster: FakeCluster,
    started: Callable[..., Session],
) -> None:
    pytester.makepyfile(
        """
        def test_it(kwait, wait_for_job_complete):
            kwait.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}})
            wait_for_job_complete("pi", timeout="0.1s")
        """
    )
    session = started("--pdb")
    said = session.until_prompt()
    shown = " ".join(said.replace("\nE", " ").split())
    assert "did not become complete within 100ms" in shown, said
    assert "DELETE /api/v1/namespaces/" not in fake_cluster()
    session.say("kwait.get('configmap/x')['metadata']['name']")
    assert session.until_prompt() == f"'x'\n{PROMPT}"
    session.say("q")
    session.until_over()
    assert "DELETE /api/v1/namespaces/" in fake_cluster()
