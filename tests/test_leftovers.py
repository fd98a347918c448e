from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import leftovers

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _checked(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "_END_TIMEOUT", "10ms")
    pytester.makeconftest("from tests.leftovers import nothing_is_left")


@pytest.fixture
def process(pytester: pytest.Pytester) -> Iterator[Path]:
    """The file with the id of the process that a test leaves."""
    file = pytester.path / "process"
    yield file
    os.kill(int(file.read_text()), signal.SIGKILL)


def test_a_file_that_a_test_leaves_is_an_error_with_its_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        import tempfile

        def test_first(): pass

        def test_second():
            open(f"{tempfile.gettempdir()}/left", "w").close()

        def test_third(): pass
        """
    )
    result = pytester.runpytest()
    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines(["*: left, after test_it.py::test_second"])


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="no /proc here")
def test_a_process_that_a_test_leaves_is_an_error_with_its_command(
    pytester: pytest.Pytester, process: Path
) -> None:
    pytester.makepyfile(
        f"""
        import subprocess

        def test_it():
            process = subprocess.Popen(["sleep", "299"])
            with open({str(process)!r}, "w") as file:
                file.write(str(process.pid))
            process.returncode = 0
        """
    )
    result = pytester.runpytest()
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*: sleep 299 *"])


def test_tests_that_leave_nothing_pass(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import tempfile

        def test_it():
            with tempfile.TemporaryDirectory():
                pass
        """
    )
    pytester.runpytest().assert_outcomes(passed=1)


def test_the_tracker_of_multiprocessing_is_not_left(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    pytester.makepyfile(
        """
        import multiprocessing

        def test_it():
            multiprocessing.get_context("spawn").Lock()
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


_LEFT_BY_RUN = """
    import os, tempfile
    from tests.leftovers import LeftByRun

    def pytest_configure(config):
        config.pluginmanager.register(LeftByRun())

    def pytest_sessionstart(session):
        open(f"{tempfile.gettempdir()}/clusters", "w").close()

    def pytest_unconfigure():
        os.remove(f"{tempfile.gettempdir()}/clusters")
"""


@pytest.mark.parametrize(
    ("body", "status"), [("pass", 1), ("assert False", 1), ("raise KeyboardInterrupt", 2)]
)
def test_a_file_that_a_run_leaves_fails_it_but_not_its_clusters(
    pytester: pytest.Pytester, body: str, status: int
) -> None:
    pytester.makeconftest(_LEFT_BY_RUN)
    pytester.makepyfile(
        f"""
        import tempfile

        def test_it(tmp_path):
            open(f"{{tempfile.gettempdir()}}/left", "w").close()
            {body}
        """
    )
    result = pytester.runpytest(no_reraise_ctrlc=True)
    assert result.ret == status
    assert result.stderr.lines[-1] == "the run has left files, or processes: left"


def test_a_run_that_leaves_nothing_passes(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(_LEFT_BY_RUN)
    pytester.makepyfile("def test_it(tmp_path): pass")
    result = pytester.runpytest(no_reraise_ctrlc=True)
    assert (result.ret, result.stderr.lines) == (0, [])
