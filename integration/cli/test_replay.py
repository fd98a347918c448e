from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from pytest_kwait.cli import main
from pytest_kwait.simulator.protocol.recording.files import RawLine
from tests.simulator.protocol.recording.lines import LINES, recording

_KWAIT = [sys.executable, "-c", "import sys; from pytest_kwait.cli import main; sys.exit(main())"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return recording(tmp_path / "recording.jsonl.gz")


def test_a_timeline_is_printed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(file), "--timeline", "--at", "1.1s"]) == 0
    assert capsys.readouterr().out == (
        "    1.000s  pods/web created\n    1.000s  step open the shop\n"
    )


def test_a_wait_is_run_again(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = 'wait_for_pod_running("web")'
    assert main(["replay", str(file), "--wait", call, "--at", "2s"]) == 0
    assert capsys.readouterr().out == (
        "    2.000s  wait for pod t-1/web to get to phase Running\n"
        "    2.000s    met\n"
        "    2.000s  met\n"
    )
    assert main(["replay", str(file), "--wait", call, "--at", "5.5s"]) == 1
    assert capsys.readouterr().out.endswith("    6.000s  not met: the recording ends\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--at=7s"], "--at='7s' is not valid: the recording ends at 6s"),
        (["--speed=0"], "--speed=0.0 is not valid: a number above 0, at most 1000"),
        (["--port=70000"], "--port=70000 is not valid: a number from 0 to 65535"),
        (["--kubeconfig=kc"], "is not valid: it exists; name another file"),
    ],
)
def test_invalid_arguments_are_refused(
    file: Path,
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(file.parent)
    (file.parent / "kc").write_text("mine")
    assert main(["replay", str(file), *arguments]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("kwait replay: ")
    assert said.err.endswith(f"{message}\n")
    assert (said.err.count("\n"), said.out) == (1, "")
    assert (file.parent / "kc").read_text() == "mine"


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ((), "shown at 4.2s"),
        (("--at=1.5s",), "shown at 1.5s"),
        (("--play", "--at=1s"), "played from 1s on"),
    ],
)
def test_a_recording_is_served_until_it_is_interrupted(
    file: Path, options: tuple[str, ...], shown: str
) -> None:
    kubeconfig = file.with_name("kubeconfig")
    command = [*_KWAIT, "replay", str(file), "--kubeconfig", str(kubeconfig), *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == f"export KUBECONFIG={kubeconfig}\n"
        assert process.stderr.readline() == (
            "a recording of test_shop.py::test_it (0s to 6s, failure at 4.2s), "
            f"{shown}, read-only; to end it: Ctrl-C\n"
        )
        assert kubeconfig.exists()
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(30) == 0
    assert not kubeconfig.exists()


def test_a_passed_test_is_shown_at_its_end(tmp_path: Path) -> None:
    file = recording(tmp_path / "a.gz", LINES[:3])
    with subprocess.Popen([*_KWAIT, "replay", str(file)], stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert b"(0s to 6s), shown at 6s" in process.stderr.readline()
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(30) == 0


def test_a_corrupted_recording_that_is_played_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = RawLine(0.001, "ADDED", "pods", "t-1/web", 2, object=msgspec.Raw(b'{"kind":"Pod"}'))
    file = recording(tmp_path / "a.gz", (bare,), 0.002)
    assert main(["replay", str(file), "--play"]) == 1
    assert capsys.readouterr().err.endswith(
        "kwait replay: the recording is corrupted: pods t-1/web at 0.001s: no 'metadata'\n"
    )


def test_a_kubeconfig_that_cannot_be_written_is_reported(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", str(file), "--kubeconfig", str(file / "kubeconfig")]) == 1
    said = capsys.readouterr().err
    assert said == "kwait replay: the recording cannot be served: Not a directory\n"


def test_a_reader_that_ends_early_is_no_error(file: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [*_KWAIT, "replay", str(file), "--timeline"]
    try:
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.skipif(sys.platform != "linux", reason="the full device is Linux's")
def test_an_output_that_cannot_be_written_is_reported(file: Path) -> None:
    command = [*_KWAIT, "replay", str(file), "--timeline"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    message = b"kwait replay: [Errno 28] No space left on device\n"
    assert (done.returncode, done.stderr) == (1, message)


def test_a_terminal_may_lack_characters(file: Path) -> None:
    command = [*_KWAIT, "replay", str(file), "--timeline"]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONIOENCODING": "ascii"}, capture_output=True, check=True
    )
    assert b"status.phase: Pending \\u2192 Running" in done.stdout


def test_a_taken_port_is_reported(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["replay", str(file), "--port", str(port)]) == 1
    said = capsys.readouterr().err
    assert said == "kwait replay: the recording cannot be served: Address already in use\n"
