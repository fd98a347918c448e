from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from benchmarks.children import ChildFailedError, describe_failure, run_benchmark, run_child
from benchmarks.rows import CannotMeasureError

if TYPE_CHECKING:
    from pathlib import Path


def test_output_of_a_program_is_returned(tmp_path: Path) -> None:
    found = run_child(
        [sys.executable, "-c", "import os; print(os.getcwd(), os.environ['A'])"],
        cwd=tmp_path,
        env={"A": "b"},
    )
    assert found == f"{tmp_path} b\n"


def test_error_has_command_status_and_output() -> None:
    code = "import sys; print('seen'); sys.exit('1 failed')"
    with pytest.raises(ChildFailedError) as caught:
        run_child([sys.executable, "-c", code])
    assert str(caught.value) == (
        f"{sys.executable} -c 'import sys; print('\"'\"'seen'\"'\"'); "
        "sys.exit('\"'\"'1 failed'\"'\"')' failed with status 1:\nseen\n1 failed"
    )


def test_silent_end_by_a_signal() -> None:
    assert describe_failure(["pytest", "-q"], -9, "", "\n") == (
        "pytest -q was ended by signal 9; it wrote nothing"
    )


def test_error_of_a_benchmark_comes_from_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KWAIT_KUBECONFIG", raising=False)
    found = run_benchmark("e2e_duration")
    assert isinstance(found, CannotMeasureError)
    assert str(found) == (
        "no real cluster: python -m tools.controlplane run -- python -m benchmarks e2e_duration"
    )
