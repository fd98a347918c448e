from __future__ import annotations

import sys

import pytest

from benchmarks.rows import CannotMeasureError, Row, format_table, run_alone


@pytest.mark.parametrize(
    ("row", "is_met"),
    [
        (Row("a ratio", 0.5, 0.5), True),
        (Row("a ratio", 0.6, 0.5), False),
        (Row("a share", 0.5, 0.5, is_least=True), True),
        (Row("a share", 0.4, 0.5, is_least=True), False),
        (Row("a duration", 9.0, None, "s"), True),
    ],
)
def test_bar_is_the_most_or_the_least(row: Row, is_met: bool) -> None:
    assert row.is_met is is_met


def test_table_has_a_line_for_each_row() -> None:
    rows = [
        Row("start, of the peer's", 0.1834, 0.2),
        Row("memory", 1234.5, 100, "MB"),
        Row("requests/s, of the peer's", 0.7, 0.5, is_least=True),
        Row("duration", 3.0, None, "s"),
    ]
    assert format_table(row.list_cells("start") for row in rows).splitlines() == [
        "name   what                       figure    bar       met",
        "start  start, of the peer's       0.183     ≤ 0.2     yes",
        "start  memory                     1,234 MB  ≤ 100 MB  no",
        "start  requests/s, of the peer's  0.7       ≥ 0.5     yes",
        "start  duration                   3 s",
    ]


def test_arguments_of_the_command_line_are_those_of_the_function(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure_rows(kubeconfig: str = "-", rounds: int = 9) -> list[Row]:
        return [Row(f"of {kubeconfig}", rounds, 4)]

    monkeypatch.setattr(sys, "argv", ["benchmarks/start.py", "file", "5"])
    with pytest.raises(SystemExit) as ended:
        run_alone(measure_rows)
    assert ended.value.code == 1
    assert capsys.readouterr().out.splitlines()[1] == "start  of file  5       ≤ 4  no"
    monkeypatch.setattr(sys, "argv", ["benchmarks/start.py", "file", "5", "6"])
    with pytest.raises(SystemExit) as ended:
        run_alone(measure_rows)
    assert ended.value.code == "at most 2 arguments are known: file 5 6"


def test_benchmark_that_lacks_something_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure_rows() -> list[Row]:
        raise CannotMeasureError("no browser")

    monkeypatch.setattr(sys, "argv", ["benchmarks/start.py"])
    with pytest.raises(SystemExit) as ended:
        run_alone(measure_rows)
    assert ended.value.code == 69
    assert capsys.readouterr().err == "no browser\n"
