from __future__ import annotations

import sys
from pathlib import Path

import pytest

import benchmarks
from benchmarks import __main__ as command
from benchmarks.children import ChildFailedError
from benchmarks.rows import CannotMeasureError, Row


def test_each_benchmark_is_listed() -> None:
    folder = Path(benchmarks.__file__).parent
    modules = {
        file.stem for file in folder.glob("*.py") if "\ndef measure_rows(" in file.read_text()
    }
    assert modules == command.BENCHMARKS.keys()
    assert list(command.BENCHMARKS) == sorted(command.BENCHMARKS)


def test_one_table_has_figures_and_reasons(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found: dict[str, list[Row] | BaseException] = {
        "programs": [Row("start", 40.0, 50, "ms"), Row("requests", 0.4, 0.3, is_least=True)],
        "recording": ChildFailedError("pytest -q failed with status 1:\n1 failed"),
        "report_10000": CannotMeasureError("no browser"),
    }
    monkeypatch.setattr(sys, "argv", ["benchmarks", *found])
    monkeypatch.setattr(command, "run_benchmark", found.__getitem__)
    assert command.main() == 1
    written = capsys.readouterr()
    assert written.out.splitlines() == [
        "name          what                                              figure  bar      met",
        "programs      start                                             40 ms   ≤ 50 ms  yes",
        "programs      requests                                          0.4     ≥ 0.3    yes",
        "recording     ChildFailedError: pytest -q failed with status 1                   failed",
        "report_10000  no browser                                                         "
        "not measured",
    ]
    assert "pytest -q failed with status 1:\n1 failed" in written.err


@pytest.mark.parametrize(("figure", "status"), [(1.0, 0), (3.0, 1)])
def test_status_says_whether_each_bar_is_met(
    monkeypatch: pytest.MonkeyPatch, figure: float, status: int
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks", "programs"])
    monkeypatch.setattr(command, "run_benchmark", lambda _: [Row("start", figure, 2)])
    assert command.main() == status


def test_unknown_name_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks", "job_500"])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 2
    assert "no benchmark job_500: there are apply_definitions, binaries_start, " in (
        capsys.readouterr().err
    )
