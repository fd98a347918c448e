"""kopf: an operator that handles creation, change and deletion of custom resources."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("kopf", reason="kopf is not installed")

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait import Kwait


@pytest.fixture
def operator(
    kubeconfig: Path, kwait_namespace: str, group: str, tmp_path: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """The operator, running as its users run it."""
    command = [sys.executable, "-P", "-m", "kopf", "run", f"--namespace={kwait_namespace}"]
    log = tmp_path / "operator.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, "--verbose", str(Path(__file__).with_name("operator.py"))],
            env=os.environ | {"KUBECONFIG": str(kubeconfig), "GREETINGS_GROUP": group},
            cwd=tmp_path,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(timeout=240)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        print(log.read_text())


def test_an_operator_reconciles(
    operator: subprocess.Popen[bytes], kwait: Kwait, group: str
) -> None:
    kwait.create(
        {
            "apiVersion": f"{group}/v1",
            "kind": "Greeting",
            "metadata": {"name": "hello"},
            "spec": {"text": "hello", "copies": 2},
        }
    )
    greeting = f"greetings.{group}/hello"
    condition = "jsonpath={.status.write.written}=hello"
    assert kwait.wait_for(greeting, condition, timeout="4m")["metadata"]["finalizers"] == [
        f"{group}/said"
    ]
    written = kwait.get("configmap/hello")
    assert written["data"] == {"text": "hello hello"}
    assert written["metadata"]["ownerReferences"][0]["kind"] == "Greeting"

    changed = kwait.get(greeting)
    kwait.apply(
        {
            "apiVersion": f"{group}/v1",
            "kind": "Greeting",
            "metadata": {"name": "hello"},
            "spec": {"text": "bye", "copies": 1},
        }
    )
    kwait.wait_for("configmap/hello", "jsonpath={.data.text}=bye", timeout="4m")
    assert kwait.get(greeting)["metadata"]["generation"] == changed["metadata"]["generation"] + 1

    # The operator's finalizer holds it until the goodbye is said; its map goes with it.
    kwait.delete(greeting)
    kwait.wait_for("configmap/hello-goodbye", "create", timeout="4m")
    kwait.wait_for(greeting, "delete", timeout="4m")
    kwait.wait_for("configmap/hello", "delete", timeout="4m")
    assert operator.poll() is None
