"""The flag `--version`, in the forms of component-base.

Source: k8s.io/component-base version/verflag/verflag_test.go, version/dynamic_test.go.
"""

from __future__ import annotations

import platform
import threading
from importlib import metadata

import pytest

from pytest_kwait.scheduler.command.flags import parse_flags
from pytest_kwait.scheduler.command.scheduler_main import run
from pytest_kwait.scheduler.command.server import render_flagz

VERSION = metadata.version("pytest-kwait")
OWN = ".".join(VERSION.split(".")[:3])
MISSING = "--kubeconfig=/nowhere/x"
NOT_FOUND = "Error: stat /nowhere/x: no such file or directory\n"


@pytest.fixture
def amd64(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(platform, "python_version", lambda: "3.11.7")
    monkeypatch.setattr("sys.platform", "linux")


def info(version: str) -> str:
    major, minor, _ = OWN.split(".")
    return (
        f'version.Info{{Major:"{major}", Minor:"{minor}", EmulationMajor:"1", EmulationMinor:"36", '
        'MinCompatibilityMajor:"1", MinCompatibilityMinor:"36", '
        f'GitVersion:"v{version}", GitCommit:"", GitTreeState:"", '
        'BuildDate:"1970-01-01T00:00:00Z", GoVersion:"", Compiler:"cpython 3.11.7", '
        'Platform:"linux/amd64"}\n'
    )


@pytest.mark.usefixtures("amd64")
@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (["--version"], f"kwait-scheduler {VERSION}\n"),
        (["--version=true"], f"kwait-scheduler {VERSION}\n"),
        (["--version=1"], f"kwait-scheduler {VERSION}\n"),
        (["--version=raw"], info(VERSION)),
        (["--version=false", "--version=raw"], info(VERSION)),
        (["--version=raw", "--version"], f"kwait-scheduler {VERSION}\n"),
        ([f"--version=v{OWN}-alpha.1+b", "--version"], f"kwait-scheduler {OWN}-alpha.1+b\n"),
        ([f"--version=v{OWN}-5-gabc", "--version=raw"], info(f"{OWN}-5-gabc")),
    ],
)
def test_what_it_shows(capsys: pytest.CaptureFixture[str], argv: list[str], shown: str) -> None:
    assert run([*argv, MISSING], threading.Event()) == 0
    assert capsys.readouterr() == (shown, "")


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        ([], "false"),
        (["--version=false"], "false"),
        ([f"--version=v{OWN}"], f"v{OWN}"),
        (["--version", f"--version=v{OWN}-x"], f"v{OWN}-x"),
        (["--version", "--version=0"], "false"),
    ],
)
def test_what_lets_the_program_run(
    capsys: pytest.CaptureFixture[str], argv: list[str], shown: str
) -> None:
    assert run([*argv, MISSING], threading.Event()) == 1
    assert capsys.readouterr().err.endswith(NOT_FOUND)
    assert f"\nversion: {shown}\n" in render_flagz(parse_flags(argv))[1].decode()


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("maybe", 'strconv.ParseBool: parsing "maybe": invalid syntax'),
        ("", 'strconv.ParseBool: parsing "": invalid syntax'),
        ("vX", 'could not parse "vX" as version'),
        ("v1.36", 'illegal version string "v1.36"'),
        ("v1.36.02", 'illegal zero-prefixed version component "02" in "v1.36.02"'),
        ("v1.36.2-", 'could not parse pre-release/metadata (-) in version "v1.36.2-"'),
        ("v1.36.2-a..b", 'could not parse pre-release/metadata (-a..b) in version "v1.36.2-a..b"'),
        ("v1.36.2+a_b", 'could not parse pre-release/metadata (+a_b) in version "v1.36.2+a_b"'),
        (
            "v99.9.9",
            f'version "v99.9.9" must match major/minor/patch of default version "v{OWN}"',
        ),
    ],
)
def test_an_invalid_value(capsys: pytest.CaptureFixture[str], value: str, reason: str) -> None:
    assert run([f"--version={value}", "--version"], threading.Event()) == 1
    error = f'Error: invalid argument "{value}" for "--version" flag: {reason}\n'
    assert capsys.readouterr() == ("", error)
