from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

FakeCluster = Callable[[], str]

termios = pytest.importorskip("termios")

SUITE = """
import pytest

def test_before(): pass

def test_waits(wait_for_job_complete):
    print("said by the test")
    with pytest.raises(Exception):
        wait_for_job_complete("pi", timeout="1.2s")
    print("said after the wait")

def test_after(): pass
"""
DRAWN = re.compile(r"\x1bD\x1b\[A\x1b7\r+\n\x1b\[2K(.*?)\x1b8")
ERASED = "\x1b[J"


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("CI", "BUILD_NUMBER")}
    return {**kept, "TERM": "xterm", **more}


def command(*options: str) -> list[str]:
    return [sys.executable, "-P", "-m", "pytest", "-p", "no:cacheprovider", *options]


def on_a_terminal(pytester: pytest.Pytester, *options: str, **more: str) -> str:
    """Run the suite with a terminal for its output; return all that came there."""
    ours, theirs = os.openpty()
    termios.tcsetwinsize(ours, (24, 120))
    process = subprocess.Popen(
        command(*options), cwd=pytester.path, stdout=theirs, stderr=theirs, env=environment(**more)
    )
    os.close(theirs)
    output = b""
    try:
        while data := os.read(ours, 65536):
            output += data
    except OSError:
        pass  # how the end of a terminal's other side is told
    finally:
        os.close(ours)
    assert process.wait(60.0) == 0, output.decode()
    return output.decode()


def test_a_terminal_shows_what_is_awaited_and_no_trace_of_it_stays(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(test_it=SUITE)
    output = on_a_terminal(pytester)
    drawn = DRAWN.findall(output)
    assert 2 <= len(drawn) <= 4
    said = re.fullmatch(
        r"kwait: [01]s left: job \S+/pi to become complete: not found yet", drawn[0]
    )
    assert said is not None, drawn[0]
    # Erased once, before pytest goes on with the dots of the line above.
    rest = DRAWN.sub("", output)
    assert rest.count(ERASED) == 1
    plain = re.sub(r"\x1b\[[\d;]*m|\x1b\]9;4[^\x1b]*\x1b\\", "", rest.replace(ERASED, ""))
    assert re.search(r"test_it\.py \.\.\. +\[100%\]", plain), plain
    assert "said" not in plain


@pytest.mark.parametrize(
    ("options", "more"),
    [
        (["-q"], {}),
        (["-s"], {}),
        (["-p", "no:terminal"], {}),
        (["-o", "log_cli=true"], {}),
        (["--log-cli-level=INFO"], {}),
        (["-n1"], {}),
        (["-p", "no:pytest_kwait.plugin.progress"], {}),
        ([], {"CI": "true"}),
        ([], {"TERM": "dumb"}),
    ],
)
def test_where_a_line_would_disturb_there_is_none(
    options: list[str], more: dict[str, str], pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(test_it=SUITE)
    output = on_a_terminal(pytester, *options, **more)
    assert "\x1b7" not in output
    assert " left: " not in output


BEATING = """
import pytest
from pytest_kwait.plugin import narration

narration.HEARTBEAT = 0.5

def test_before(): pass

def test_waits(wait_for_job_complete):
    with pytest.raises(Exception):
        wait_for_job_complete("pi", timeout="1.2s")
"""


def lines(pytester: pytest.Pytester, *options: str) -> list[str]:
    done = subprocess.run(
        command(*options),
        cwd=pytester.path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60.0,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout.splitlines()


def test_a_log_gets_a_heartbeat_on_lines_of_its_own(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(test_it=BEATING)
    output = lines(pytester)
    beats = [number for number, line in enumerate(output) if line.startswith("kwait: still")]
    assert len(beats) == 2, output
    text = r"kwait: still waiting: job \S+/pi to become complete: not found yet "
    assert re.fullmatch(text + r"\(after [01]s, [01]s left\)", output[beats[0]])
    assert output[beats[0] - 1] == "test_it.py ."
    assert re.fullmatch(r"\. +\[100%\]", output[beats[-1] + 1])


def test_a_worker_says_it_on_the_errors_of_its_controller(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(test_it=BEATING)
    text = r"kwait \[gw0\]: still waiting: job \S+/pi to become complete: not found yet .*"
    assert any(re.fullmatch(text, line) for line in lines(pytester, "-n1"))


def test_a_run_that_is_very_quiet_stays_so(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(test_it=BEATING)
    assert not any("kwait" in line for line in lines(pytester, "-qq"))


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no SIGUSR1 here")
def test_the_signal_lists_what_is_pending(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(
        test_it="""
        import os, signal, threading
        import pytest

        def test_waits(wait_for_job_complete):
            threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGUSR1)).start()
            with pytest.raises(Exception):
                wait_for_job_complete("pi", timeout="1s")
        """
    )
    output = lines(pytester)
    at = output.index("kwait: 1 wait is pending (SIGUSR1)")
    text = r"  job \S+/pi to become complete: not found yet \(after 0s, 1s left\)"
    assert re.fullmatch(text, output[at + 1])


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no SIGUSR1 here")
def test_the_signal_ends_no_controller(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(
        test_it="""
        import os, signal, time

        def test_it():
            os.kill(os.getppid(), signal.SIGUSR1)
            time.sleep(0.3)
        """
    )
    assert "kwait: no waits are pending (SIGUSR1)" in lines(pytester, "-n1")


def test_waits_that_outlast_the_test_are_listed_before_it_is_ended(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest
        from pytest_kwait import wait_for_job_complete

        @pytest.mark.timeout(1)
        def test_it(kwait):
            wait_for_job_complete(kwait.client, kwait.namespace, "pi", mode="poll", poll="50ms")
        """
    )
    done: Any = subprocess.run(
        command(), cwd=pytester.path, env=environment(), capture_output=True, text=True, timeout=60
    )
    output = done.stdout.splitlines()
    at = output.index("kwait: 1 wait is pending (the test's own timeout of 1s is near)")
    assert re.fullmatch(r"  job \S+/pi to become complete: not found yet .*", output[at + 1])
    assert done.returncode == 1
