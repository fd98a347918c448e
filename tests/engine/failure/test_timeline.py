from __future__ import annotations

from pytest_kwait.engine.failure.timeline import Timeline, VerdictChange


def test_only_changes_are_kept() -> None:
    timeline = Timeline()

    told = [timeline.record(float(at), text) for at, text in enumerate(["a", "a", "b", "a"])]

    assert told == [True, False, True, True]
    assert timeline.first == (
        VerdictChange(0.0, "a"),
        VerdictChange(2.0, "b"),
        VerdictChange(3.0, "a"),
    )
    assert timeline.last == "a"
    assert timeline.left_out == 0


def test_many_changes_keep_both_ends() -> None:
    timeline = Timeline(limit=2)

    for at in range(10):
        timeline.record(float(at), str(at))

    assert [change.text for change in timeline.first] == ["0", "1"]
    assert [change.text for change in timeline.latest] == ["8", "9"]
    assert timeline.left_out == 6
    assert timeline.changes == 10
