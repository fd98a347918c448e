"""Coverage of programs in pods that live to the end of the run, as docs/programs.md shows it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from conformance.runs import inner_runs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_SUITE = """
from pathlib import Path

import pytest

import pytest_kwait

ROOT = Path(__file__).parent


@pytest.fixture(scope="session")
def kwait_images():
    return {"shop/operator:*": MAPPING}


@pytest_kwait.environment(scope="run")
def operator(kwait):
    container = {"name": "operator", "image": "shop/operator:1"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "operator"}}
    kwait.create({**pod, "spec": {"containers": [container]}})
    kwait.wait_for_pod_ready("operator")
    kwait.wait_for("pod/operator", lambda _: "watching" in kwait.logs("operator"), mode="poll")
    yield kwait


def test_it(operator):
    pass
"""

_PYTHON = """
import time

print("watching", flush=True)
while True:
    time.sleep(0.1)
"""

_GO = """
package main

import (
	"context"
	"fmt"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	fmt.Println("watching")
	<-ctx.Done()
	fmt.Println("ended")
}
"""


def run_suite(folder: Path, mapping: str) -> None:
    """Run the suite on an embedded cluster of its own, which ends with it."""
    suite = _SUITE.replace("MAPPING", mapping)
    status, said = inner_runs.run(folder, None, suite)
    assert (status, "1 passed" in said) == (0, True), said


def call(folder: Path, *command: str, env: Mapping[str, str] | None = None) -> str:
    """Return the output of a command that succeeds."""
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=500
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def test_a_program_in_python(tmp_path: Path) -> None:
    """It has no handler of SIGTERM; coverage's own saves what was run."""
    pytest.importorskip("coverage", reason="coverage is not installed")
    (tmp_path / "operator_main.py").write_text(_PYTHON)
    settings = "[tool.coverage.run]\nparallel = true\nsigterm = true\n"
    (tmp_path / "pyproject.toml").write_text(settings)
    run_suite(
        tmp_path,
        f"""{{
            "command": [{sys.executable!r}, "-m", "coverage", "run", "-m", "operator_main"],
            "env": {{"COVERAGE_FILE": f"{{ROOT}}/.coverage"}},
            "workdir": ROOT,
            "writable": [ROOT],
        }}""",
    )

    coverage = (sys.executable, "-m", "coverage")
    call(tmp_path, *coverage, "combine")
    call(tmp_path, *coverage, "json", "-o", "coverage.json")
    (found,) = json.loads((tmp_path / "coverage.json").read_text())["files"].values()
    assert found["executed_lines"] == [2, 4, 5, 6]


@pytest.mark.skipif(shutil.which("go") is None, reason="go is not installed")
def test_a_program_in_go(tmp_path: Path) -> None:
    """It returns from main on SIGTERM, as managers of controller-runtime do."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "main.go").write_text(_GO)
    (source / "go.mod").write_text("module example.com/operator\n\ngo 1.22\n")
    call(source, "go", "build", "-cover", "-o", str(tmp_path / "operator"), ".")
    data = tmp_path / "coverage"
    data.mkdir()
    run_suite(
        tmp_path,
        """{
            "command": [ROOT / "operator"],
            "env": {"GOCOVERDIR": str(ROOT / "coverage")},
            "writable": [ROOT / "coverage"],
        }""",
    )

    found = call(source, "go", "tool", "covdata", "percent", f"-i={data}")
    assert "coverage: 100.0% of statements" in found
