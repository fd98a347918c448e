from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from pytest_kwait.plugin import live_status
from pytest_kwait.plugin.run import Run
from pytest_kwait.suite.config.settings import Settings
from tests.forked_python import ForkedPython
from tests.plugin.conftest import FAKE_CLUSTER

FakeCluster = Callable[[], str]

termios = pytest.importorskip("termios")

SUITE = """
import pytest

def test_before(): pass

def test_waits(wait_for_job_complete):
    print("said by the test")
    with pytest.raises(Exception):
        wait_for_job_complete("pi", timeout="1.6s")
    print("said after the wait")

def test_after(): pass
"""
DRAWN = re.compile(r"\x1bD\x1b\[A\x1b7\r+\n\x1b\[2K(.*?)\x1b8")
ERASED = "\x1b[J"


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "TERM": "xterm", **more}


def command(*options: str) -> list[str]:
    return [sys.executable, "-P", "-m", "pytest", "-p", "no:cacheprovider", *options]


def on_a_terminal(pytester: pytest.Pytester, *options: str, **more: str) -> str:
    """Run the suite with a terminal for its output; return all that came there."""
    ours, theirs = os.openpty()
    termios.tcsetwinsize(ours, (24, 120))
    process = ForkedPython(
        command(*options), cwd=pytester.path, stdout=theirs, stderr=theirs, env=environment(**more)
    )
    os.close(theirs)
    output = b""
    try:
        while data := os.read(ours, 65536):
            output += data
    except OSError:
        pass  # the other side of the terminal has ended
    finally:
        os.close(ours)
    assert process.wait(60.0) == 0, output.decode()
    return output.decode()


def test_live_line_is_shown_and_erased(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(test_it=SUITE)
    output = on_a_terminal(pytester)
    drawn = DRAWN.findall(output)
    assert 1 <= len(drawn) <= 5
    said = re.fullmatch(
        r"kwait: [01]s left: job \S+/pi to become complete: not found yet", drawn[0]
    )
    assert said is not None, drawn[0]
    # Erased once, before pytest continues the line above.
    rest = DRAWN.sub("", output)
    assert rest.count(ERASED) == 1
    plain = re.sub(r"\x1b\[[\d;]*m|\x1b\]9;4[^\x1b]*\x1b\\", "", rest.replace(ERASED, ""))
    assert re.search(r"test_it\.py \.\.\. +\[100%\]", plain), plain
    assert "said" not in plain


def test_live_line_shows_waits_of_workers(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(
        """
        import time
        from pathlib import Path

        import pytest

        @pytest.mark.parametrize("n", range(2))
        def test_it(wait_for_job_complete, n):
            Path(f"ready-{n}").touch()
            while not Path(f"ready-{1 - n}").exists():
                time.sleep(0.01)
            with pytest.raises(Exception):
                wait_for_job_complete("pi", timeout="1.6s")
        """
    )
    output = on_a_terminal(pytester, "-n2")
    drawn = DRAWN.findall(output)
    one = r"\[gw[01]\] [012]s left: job \S+/pi to become complete: not found yet"
    assert drawn
    assert all(re.fullmatch(rf"kwait: (1 more worker waits, )?{one}", line) for line in drawn)
    assert any("1 more worker waits, [gw0]" in line for line in drawn)
    rest = DRAWN.sub("", output)
    assert 1 <= rest.count(ERASED) <= 4
    plain = re.sub(r"\x1b\[[\d;]*m|\x1b\]9;4[^\x1b]*\x1b\\", "", rest.replace(ERASED, ""))
    assert re.search(r"\n\.\. +\[100%\]", plain), plain
    assert "still waiting" not in plain


@pytest.fixture
def terminal() -> Iterator[int]:
    ours, theirs = os.openpty()
    yield theirs
    os.close(ours)
    os.close(theirs)


@pytest.fixture
def user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody sits at the terminal."""
    for name in set(os.environ) - set(environment()):
        monkeypatch.delenv(name)
    monkeypatch.setenv("TERM", "xterm")


@pytest.mark.usefixtures("user")
@pytest.mark.parametrize(
    ("options", "more", "drawn"),
    [
        ([], {}, True),
        (["-v"], {}, True),
        (["-q"], {}, False),
        (["-s"], {}, False),
        (["-o", "log_cli=true"], {}, False),
        (["--log-cli-level=INFO"], {}, False),
        ([], {"CI": "true"}, False),
        ([], {"BUILD_NUMBER": "1"}, False),
        ([], {"TERM": "dumb"}, False),
    ],
)
def test_where_a_line_would_disturb_there_is_none(
    options: list[str],
    more: dict[str, str],
    drawn: bool,
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    terminal: int,
) -> None:
    for name, value in more.items():
        monkeypatch.setenv(name, value)
    config = pytester.parseconfig(*options)
    assert live_status._is_live(config, terminal) is drawn
    with (pytester.path / "log").open("w") as file:
        assert not live_status._is_live(config, file.fileno())
    config.workerinput = {"workerid": "gw0"}  # type: ignore[attr-defined] # as pytest-xdist does
    assert not live_status._is_live(config, terminal)


@pytest.mark.parametrize(
    ("options", "said"), [([], True), (["-q"], True), (["-qq"], False), (["-v"], True)]
)
def test_a_run_that_is_very_quiet_stays_so(
    options: list[str], said: bool, pytester: pytest.Pytester
) -> None:
    assert live_status._writes_periodically(pytester.parseconfig(*options)) is said


def test_no_live_line_without_the_terminal_plugin(pytester: pytest.Pytester) -> None:
    config = pytester.parseconfig("-p", "no:terminal")
    control = live_status.LiveStatusControl(Run(config, Settings()))
    control.pytest_sessionstart()
    assert control.status is None


def lines(pytester: pytest.Pytester, *options: str) -> list[str]:
    process = ForkedPython(
        command(*options),
        cwd=pytester.path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    output: str = process.communicate(timeout=60.0)[0].decode()
    assert process.returncode == 0, output
    return output.splitlines()


needs_signal = pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no SIGUSR1 here")

LOGGED = """
import os, signal, threading
import pytest
from pytest_kwait import WaitTimeout, wait_for_job_complete
from pytest_kwait.engine.active_waits import ACTIVE_WAITS, WaitObserver
from pytest_kwait.plugin import live_status, timeout

live_status.STATUS_INTERVAL = 0.3
DONE = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "asked"},
        "status": {"conditions": [{"type": "Complete", "status": "True"}]}}

def test_before(): pass

def test_beats(wait_for_job_complete):
    with pytest.raises(WaitTimeout):
        wait_for_job_complete("pi", timeout="1.6s")

def test_signal(kwait, wait_for_job_complete, monkeypatch):
    monkeypatch.setattr(live_status, "STATUS_INTERVAL", 60.0)

    seen = threading.Event()

    class Observer(WaitObserver):
        def on_change(self, wait):
            seen.set()

    def ask():
        seen.wait(30.0)
        os.kill(os.getpid(), signal.SIGUSR1)
        kwait.create(DONE)

    observer = Observer()
    ACTIVE_WAITS.add(observer)
    threading.Thread(target=ask, daemon=True).start()
    wait_for_job_complete("asked", timeout="30s")
    ACTIVE_WAITS.remove(observer)

@pytest.fixture
def reserve():
    # So much of the limit is left that a slow machine does not come to it.
    timeout._RESERVED_PART = 0.99
    timeout._RESERVED_SECONDS = 29.8
    live_status.STATUS_INTERVAL = 60.0

@pytest.mark.timeout(30, func_only=True)
def test_outlasts(reserve, kwait):
    with pytest.raises(WaitTimeout):
        # Another client than the suite's: its waits do not know the test's limit.
        client = kwait.cluster.client()
        wait_for_job_complete(
            client, kwait.namespace, "late", mode="poll", poll="50ms", timeout="0.8s"
        )
"""


@needs_signal
def test_a_log_gets_heartbeats_and_lists_on_lines_of_their_own(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(test_it=LOGGED)
    output = lines(pytester)

    beats = [number for number, line in enumerate(output) if line.startswith("kwait: still")]
    assert 1 <= len(beats) <= 6, output
    text = r"kwait: still waiting: job \S+/pi to become complete: not found yet "
    assert re.fullmatch(text + r"\(after [0-2]s, [0-2]s left\)", output[beats[0]])
    assert output[beats[0] - 1] == "test_it.py ."

    at = output.index("kwait: 1 wait is pending (SIGUSR1)")
    text = r"  job \S+/asked to become complete: not found yet \(after \d+s, \d+s left\)"
    assert re.fullmatch(text, output[at + 1])

    at = output.index("kwait: 1 wait is pending (the test's own timeout of 30s is near)")
    assert re.fullmatch(r"  job \S+/late to become complete: not found yet .*", output[at + 1])
    assert re.fullmatch(r"\. +\[100%\]", output[at + 2])


@needs_signal
def test_sigusr1_prints_waits_of_workers_to_the_controllers_stderr(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makeconftest(
        f"""
{FAKE_CLUSTER}

def pytest_configure(config):
    os.environ.setdefault("CONTROLLER", str(os.getpid()))
"""
    )
    pytester.makepyfile(
        test_it="""
        import os, signal, time
        import pytest
        from pytest_kwait.plugin import live_status

        live_status.STATUS_INTERVAL = 0.3

        def test_waits(wait_for_job_complete):
            os.kill(int(os.environ["CONTROLLER"]), signal.SIGUSR1)
            with pytest.raises(Exception):
                wait_for_job_complete("pi", timeout="1.6s")
        """,
    )
    output = lines(pytester, "-n1")
    text = r"kwait \[gw0\]: still waiting: job \S+/pi to become complete: not found yet .*"
    told = [line for line in output if re.fullmatch(text, line)]
    # Once each interval.
    assert 1 <= len(told) <= 6, output
    assert "kwait: no waits are pending (SIGUSR1)" in output
