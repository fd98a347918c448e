from __future__ import annotations

import json
import random
from typing import Any

import pytest

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.suite.report import run_report
from pytest_kwait.suite.report.records import (
    AuditedWait,
    AuditRecord,
    CaughtWaits,
    Explanation,
    JournalEntry,
    Playback,
    PlayedTest,
    RecordedVerdict,
    RunRecord,
    TestRecord,
    WaitRecord,
    WaitStarted,
)
from pytest_kwait.suite.report.run_report import (
    RunReport,
    assemble_report,
    decode_report,
    encode_report,
    list_omissions,
    merge_reports,
)


def run(id: str = "r1", shard: str = "", ended: float | None = 100.0, **more: Any) -> RunRecord:
    return RunRecord(id, id, more.pop("started", 1.0), ended, shard, **more)


def wait(id: str, started: float = 10.0, outcome: str = "met", **more: Any) -> WaitRecord:
    return WaitRecord(
        id, more.pop("run", "r1"), "pod ns/p", "be ready", started, 1.0, outcome, **more
    )


def check(test: str, outcome: str, run: str = "r1", ended: float = 20.0) -> TestRecord:
    return TestRecord(f"{run}.{test}", run, test, outcome, ended)


def report(*records: Any) -> RunReport:
    return assemble_report(
        JournalEntry(
            run=record if isinstance(record, RunRecord) else None,
            wait=record if isinstance(record, WaitRecord) else None,
            test=record if isinstance(record, TestRecord) else None,
        )
        for record in records
    )


def ids(found: RunReport) -> list[str]:
    return [each.id for each in found.waits]


def test_json_round_trips() -> None:
    one = wait("a", changes=[RecordedVerdict(0.5, "no")], text="ü </script>", evidence={"pods": []})
    found = report(run(tests={"passed": 2}), one, check("t", "failed"))
    assert decode_report(encode_report(found), "FILE", "x") == found
    assert json.loads(encode_report(found))["kwait_report"] == 1


def test_waits_are_sorted_by_start() -> None:
    assert ids(report(run(), wait("b", 12.0), wait("a", 11.0), wait("c", 11.0))) == ["a", "c", "b"]


def test_tests_that_neither_waited_nor_failed_are_left_out() -> None:
    found = report(
        run(), wait("a", test="waits"), check("waits", "passed"), check("idle", "passed"),
        check("bad", "failed"), check("setup", "error"), check("gone", "crashed"),
    )  # fmt: skip
    assert sorted(each.test for each in found.tests) == ["bad", "gone", "setup", "waits"]


def test_passed_tests_without_a_record_are_named_by_their_run() -> None:
    found = report(
        run(), wait("a", test="waits"), check("waits", "passed"), check("idle", "passed"),
        check("skipped", "skipped"), check("again", "passed"),
    )  # fmt: skip
    assert found.runs[0].passed == ["again", "idle"]
    killed = report(run(ended=None), check("other", "passed"))
    merged = merge_reports([killed, decode_report(encode_report(found), "FILE", "x"), found])
    assert merged.runs[0].passed == ["again", "idle", "other"]


def test_evidence_is_assigned_to_its_wait() -> None:
    explained = Explanation("a", "headline", "text", {"pods": []})
    found = assemble_report(
        [JournalEntry(run=run()), JournalEntry(wait=wait("a")), JournalEntry(explained=explained)]
    )
    assert (found.waits[0].headline, found.waits[0].text, found.waits[0].evidence) == (
        "headline",
        "text",
        {"pods": []},
    )


@pytest.mark.parametrize(
    ("rest", "seconds"),
    [
        ([], 0.0),
        ([JournalEntry(wait=wait("b", 13.0))], 4.0),
        (
            [
                JournalEntry(wait=wait("b", 13.0)),
                JournalEntry(test=check("t", "crashed", ended=12.5)),
            ],
            2.5,
        ),
        ([JournalEntry(test=check("other", "passed", ended=15.0))], 5.0),
        (
            [
                JournalEntry(test=check("other", "passed", ended=11.0)),
                JournalEntry(wait=wait("b", 13.0)),
            ],
            4.0,
        ),
        # An attempt before is none of this one's business.
        ([JournalEntry(test=check("t", "rerun", ended=9.0))], 0.0),
        (
            [JournalEntry(test=check("t", "rerun", ended=9.0)), JournalEntry(wait=wait("b", 13.0))],
            4.0,
        ),
    ],
    ids=[
        *("nothing after", "the last of the run", "its test", "another test", "it goes on"),
        *("an attempt before", "and more after that"),
    ],
)
def test_a_wait_whose_process_was_killed_is_unfinished(
    rest: list[JournalEntry], seconds: float
) -> None:
    begun = WaitStarted("a", "r1", "pod ns/p", "be ready", 10.0, "1/2", "gw0", "t")
    found = assemble_report([JournalEntry(run=run(ended=None)), JournalEntry(begun=begun), *rest])
    assert [(each.outcome, each.seconds) for each in found.waits if each.id == "a"] == [
        ("unfinished", seconds)
    ]


def test_ended_wait_has_its_final_state() -> None:
    begun = WaitStarted("a", "r1", "pod ns/p", "be ready", 10.0)
    over = wait("a", outcome="failed early")
    found = assemble_report(
        [JournalEntry(run=run()), JournalEntry(begun=begun), JournalEntry(wait=over)]
    )
    assert [(each.outcome, each.seconds) for each in found.waits] == [("failed early", 1.0)]


def test_evidence_of_an_unknown_wait_is_dropped() -> None:
    found = assemble_report(
        [JournalEntry(run=run()), JournalEntry(explained=Explanation("a", "h", "text", {}))]
    )
    assert found.waits == []


def test_evidence_is_bounded_as_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_report, "MAX_EVIDENCE", 150)
    found = assemble_report(
        [
            JournalEntry(run=run()),
            *(JournalEntry(wait=wait(id, outcome="failed early")) for id in "abc"),
            *(JournalEntry(explained=Explanation(id, "h", "x" * 100, {})) for id in "abc"),
        ]
    )
    assert [len(each.text) for each in found.waits] == [100, 0, 0]
    assert list_omissions(found) == ["run r1: the evidence of 2 waits is left out"]


@pytest.mark.parametrize("shard", ["a/2", "1/b", "1/", "/2", "1", "1/0"])
def test_unsharded_run_has_no_missing_shards(shard: str) -> None:
    assert list_omissions(report(run("r1", shard))) == []


def test_omissions_of_one_of_two_reports_are_noted() -> None:
    half = report(run(ended=None))
    half.runs[0].waits_left_out = 3
    whole = report(run())
    whole.runs[0].evidence_left_out = 2
    for order in ([half, whole], [whole, half]):
        (found,) = merge_reports(
            decode_report(encode_report(part), "FILE", "x") for part in order
        ).runs
        assert (found.ended, found.waits_left_out, found.evidence_left_out) == (100.0, 3, 2)


def test_the_same_wait_is_in_a_merged_report_once() -> None:
    one = report(run(), wait("a"), wait("b"), check("t", "failed"))
    both = merge_reports([one, report(run(), wait("b"), wait("c"))])
    assert (ids(both), len(both.runs), len(both.tests)) == (["a", "b", "c"], 1, 1)
    assert encode_report(merge_reports([both, one, both])) == encode_report(both)


def test_the_order_of_the_files_does_not_matter() -> None:
    parts = [
        report(
            run(f"r{n}", f"{n}/4", started=float(n)),
            *(wait(f"r{n}.{m}", random.Random(m).uniform(1, 9), run=f"r{n}") for m in range(20)),
            check("t", "failed", f"r{n}", float(n)),
        )
        for n in range(1, 5)
    ]
    first = encode_report(
        merge_reports(decode_report(encode_report(part), "FILE", "x") for part in parts)
    )
    for seed in range(5):
        random.Random(seed).shuffle(parts)
        assert (
            encode_report(
                merge_reports(decode_report(encode_report(part), "FILE", "x") for part in parts)
            )
            == first
        )


def test_more_complete_record_wins() -> None:
    killed = report(run(ended=None), wait("a", outcome="unfinished"), wait("b"))
    whole = report(run(), wait("a", outcome="failed early", text="why"), wait("b", text="why not"))
    for order in ([killed, whole], [whole, killed]):
        both = merge_reports(decode_report(encode_report(part), "FILE", "x") for part in order)
        assert [(each.outcome, each.text) for each in both.waits] == [
            ("failed early", "why"),
            ("met", "why not"),
        ]
        assert both.runs[0].ended == 100.0


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "it is empty: no run has written its report there"),
        (b'{"kwait_report":1,"runs":[', "it is no whole JSON: Input data was truncated"),
        (b"<html>", "it is a page to look at; merge the .json that its run wrote with it"),
        (b"[]", "it is no report: --kwait-report FILE.json writes one, as kwait_report=1"),
        (b'{"a":1}', "it is no report: --kwait-report FILE.json writes one, as kwait_report=1"),
        (
            b'{"kwait_report":2,"lanes":[]}',
            "it is a report of version 2, and this pytest-kwait reads version 1; use the "
            "pytest-kwait that wrote it",
        ),
        (
            b'{"kwait_report":1,"runs":[],"waits":[{"id":7}],"tests":[]}',
            "it is a broken report: Expected `str`, got `int` - at `$.waits[0].id`",
        ),
        (
            b'{"kwait_report":1}',
            "it is a broken report: Object missing required field `runs`",
        ),
    ],
    ids=["empty", "truncated", "html", "list", "other", "version", "wrong", "lacking"],
)
def test_invalid_report_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        decode_report(data, "FILE", "x.json")
    assert str(caught.value) == f"FILE='x.json' is not valid: {message}"


def test_report_is_bounded_and_keeps_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_report, "MAX_WAITS", 3)
    monkeypatch.setattr(run_report, "MAX_EVIDENCE", 100)
    waits = [wait(f"w{n}", 10.0 + n) for n in range(20)]
    waits[7].outcome, waits[7].text = "failed early", "x" * 90
    waits[8].outcome, waits[8].text = "failed early", "x" * 90
    waits[9].seconds = 50.0
    found = report(run(), *waits)
    assert [(each.id, bool(each.text)) for each in found.waits] == [
        ("w7", True),
        ("w8", False),
        ("w9", False),
    ]
    assert list_omissions(found) == [
        "run r1: 17 waits are left out; those that did not come true and the slowest are kept "
        "first",
        "run r1: the evidence of 1 waits is left out",
    ]


def test_omissions_are_listed() -> None:
    found = merge_reports(
        [
            report(run("a", "1/3")),
            report(run("b", "1/3", ended=None, started=2.0)),
            report(run("c", started=3.0, lost="gw1.jsonl: No space left on device")),
        ]
    )
    assert list_omissions(found) == [
        "not in this report: shards 2/3, 3/3",
        "shard 1/3 is here 2 times: runs a, b",
        "run b (shard 1/3) was killed: here is what was over until then",
        "run c could not record everything: gw1.jsonl: No space left on device",
    ]


def test_list_of_missing_shards_is_cut() -> None:
    (note,) = list_omissions(report(run("a", "1/20")))
    assert note.endswith("9/20, 10/20, 11/20 and 9 more")


def played(test: str, at: float, worker: str = "", run: str = "r1") -> PlayedTest:
    """A test that was recorded until 0.5 s after `at`."""
    return PlayedTest(run, test, worker, f"{test}-{at:g}.gz", Playback(at, 0.5))


def test_each_attempt_has_its_own_playback() -> None:
    entries = [
        JournalEntry(run=run()),
        JournalEntry(test=TestRecord("r1.1", "r1", "t", "rerun", 20.0, recording="t-19.gz")),
        JournalEntry(test=TestRecord("r1.2", "r1", "t", "failed", 30.0)),
        JournalEntry(test=TestRecord("r1.3", "r1", "t", "failed", 20.0, worker="gw1")),
        JournalEntry(test=TestRecord("r2.1", "r2", "t", "failed", 20.0)),
        # A passed test that did not wait.
        JournalEntry(test=TestRecord("r1.4", "r1", "good", "passed", 25.0)),
        JournalEntry(test=TestRecord("r1.5", "r1", "other", "passed", 26.0)),
        *(JournalEntry(played=each) for each in (played("t", 29.0), played("t", 19.0))),
        JournalEntry(played=played("good", 24.0)),
        JournalEntry(played=played("killed", 24.0)),
    ]
    random.Random(1).shuffle(entries)
    found = assemble_report(entries)
    assert [
        (each.id, each.recording, each.playback and each.playback.started) for each in found.tests
    ] == [
        ("r1.1", "t-19.gz", 19.0),
        ("r1.3", "", None),
        ("r2.1", "", None),
        ("r1.4", "good-24.gz", 24.0),
        ("r1.2", "t-29.gz", 29.0),
    ]


def test_a_recording_that_was_written_again_is_played_to_its_later_end() -> None:
    again = PlayedTest("r1", "t", "", "t.gz", Playback(19.0, 0.9))
    entries = [
        JournalEntry(run=run()),
        JournalEntry(test=TestRecord("r1.1", "r1", "t", "rerun", 20.0)),
        JournalEntry(test=TestRecord("r1.2", "r1", "t", "failed", 30.0)),
        JournalEntry(played=PlayedTest("r1", "t", "", "t.gz", Playback(19.0, 0.5))),
        JournalEntry(played=again),
    ]
    found = assemble_report(entries)
    assert [each.playback for each in found.tests] == [again.playback, None]


def test_merged_reports_keep_playbacks() -> None:
    one = assemble_report(
        [
            JournalEntry(run=run()),
            JournalEntry(test=check("t", "failed")),
            JournalEntry(played=played("t", 19.0)),
        ]
    )
    two = report(run("r2"), check("t", "failed", "r2"))
    read = [decode_report(encode_report(each), "FILE", "r.json") for each in (one, two, one)]
    found = merge_reports(read)
    assert [(each.run, each.playback) for each in found.tests] == [
        ("r1", Playback(19.0, 0.5)),
        ("r2", None),
    ]
    assert list_omissions(found) == []


def test_a_merge_has_the_playback_of_either_report() -> None:
    entries = [JournalEntry(run=run()), JournalEntry(test=check("t", "failed"))]
    bare = assemble_report(entries)
    whole = assemble_report([*entries, JournalEntry(played=played("t", 19.0))])
    for order in ((bare, whole), (whole, bare)):
        read = [decode_report(encode_report(each), "FILE", "r.json") for each in order]
        assert [each.playback for each in merge_reports(read).tests] == [Playback(19.0, 0.5)]


def test_playbacks_are_bounded_and_failures_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_report, "MAX_PLAYBACKS", 60)
    outcomes = {"a": "passed", "b": "failed", "c": "failed"}
    entries = [JournalEntry(run=run())]
    for number, (name, outcome) in enumerate(outcomes.items()):
        entries.append(JournalEntry(test=check(name, outcome, ended=20.0 + number)))
        entries.append(JournalEntry(played=played(name, 19.0 + number)))
    found = assemble_report(entries)
    assert [each.playback is not None for each in found.tests] == [False, True, True]
    assert list_omissions(merge_reports([found, found])) == [
        "run r1: recordings left out: 1; kwait replay plays them"
    ]


def test_audit_belongs_to_its_wait() -> None:
    audit = AuditRecord("", 0.25, "failed")
    found = assemble_report(
        [JournalEntry(wait=wait("a")), JournalEntry(audited=AuditedWait("a", audit))]
    )
    assert [each.audit for each in found.waits] == [audit]
    merged = merge_reports([report(wait("a")), decode_report(encode_report(found), "FILE", "a")])
    assert [each.audit for each in merged.waits] == [audit]


def test_wait_that_its_test_caught_is_marked() -> None:
    lines = [
        JournalEntry(wait=wait("a", outcome="failed early")),
        JournalEntry(wait=wait("b", outcome="failed early")),
    ]
    found = assemble_report([*lines, JournalEntry(caught=CaughtWaits(["a", "unknown"]))])
    assert [each.caught for each in found.waits] == [True, False]
    reports = [assemble_report(lines), decode_report(encode_report(found), "FILE", "a")]
    for both in (reports, reports[::-1]):
        assert [each.caught for each in merge_reports(both).waits] == [True, False]


def test_explored_tests_are_kept_without_waits() -> None:
    explored = TestRecord("r1.1", "r1", "t", "passed", 20.0, explored={"runs": 2, "passed": 2})
    found = assemble_report([JournalEntry(run=run()), JournalEntry(test=explored)])
    assert [each.explored for each in found.tests] == [{"runs": 2, "passed": 2}]
