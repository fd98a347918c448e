"""The report of one or several runs: assemble, merge, encode and decode as JSON.

Its size is bounded. Failed waits are kept before others, slow ones before quick ones;
dropped records are counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec

from pytest_kwait.bounds import check_values, encode_json
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.simulator.protocol.recording.journal import mask_texts
from pytest_kwait.suite.report.records import (
    BAD_OUTCOMES,
    UNFINISHED,
    Explanation,
    PlayedTest,
    RunRecord,
    TestRecord,
    WaitRecord,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_kwait.apimachinery.secret_mask import SecretMask
    from pytest_kwait.suite.report.records import JournalEntry

VERSION = 1
"""The version of the format; raised whenever an older program could misread it."""

MAX_WAITS = 50_000
MAX_TESTS = 50_000
MAX_EVIDENCE = 16_000_000
"""Maximum bytes of messages and evidence in total."""
MAX_PLAYBACKS = 16_000_000
"""Maximum bytes of playbacks in total."""

_CLOCK_SKEW = 1.0
"""Seconds by which the clocks of a worker and of its controller may differ."""

_IDENTITIES = frozenset(
    {
        *("folder", "id", "limit_name", "name", "place", "recording", "run", "site", "test"),
        "worker",
    }
)
"""Fields of records that name tests, files and waits."""

_Record = TypeVar("_Record", RunRecord, TestRecord, WaitRecord)


class RunReport(msgspec.Struct):
    """The records of one run or of several.

    Args:
        kwait_report: the version of the format.
        runs: ordered by start.
        waits: ordered by start.
        tests: those that waited, failed, were recorded or explored, ordered by end.
    """

    kwait_report: int
    runs: list[RunRecord]
    waits: list[WaitRecord]
    tests: list[TestRecord]


def assemble_report(entries: Iterable[JournalEntry]) -> RunReport:
    """Assemble a report from journals, in any order.

    An unfinished wait lasts until the end of its test, or else until the last record of its run.
    """
    runs: dict[str, RunRecord] = {}
    waits: dict[str, WaitRecord] = {}
    tests: dict[str, TestRecord] = {}
    open_waits: dict[str, WaitRecord] = {}
    latest: dict[str, float] = {}
    dropped: dict[str, int] = {}
    bare: dict[str, int] = {}
    played: list[PlayedTest] = []
    room = MAX_EVIDENCE
    for entry in entries:
        if entry.run is not None:
            _merge_record(runs, entry.run, _fuller_run)
        if entry.begun is not None:
            begun = msgspec.structs.asdict(entry.begun)
            open_waits[entry.begun.id] = WaitRecord(**begun, seconds=0.0, outcome=UNFINISHED)
            _update_latest(latest, entry.begun.run, entry.begun.started)
        if entry.wait is not None:
            open_waits.pop(entry.wait.id, None)
            waits[entry.wait.id] = entry.wait
            _update_latest(latest, entry.wait.run, entry.wait.started + entry.wait.seconds)
            if len(waits) >= 2 * MAX_WAITS:
                _drop_waits(waits, dropped)
        if entry.explained is not None and entry.explained.id in waits:
            # It follows its wait in the same journal.
            wait, known = waits[entry.explained.id], entry.explained
            wait.headline = known.headline
            room -= _size(known)
            if room >= 0:
                wait.text, wait.evidence = known.text, known.evidence
            else:
                bare[wait.run] = bare.get(wait.run, 0) + 1
        if entry.audited is not None and entry.audited.id in waits:
            waits[entry.audited.id].audit = entry.audited.audit
        if entry.caught is not None:
            for id in entry.caught.ids:
                if id in waits:
                    waits[id].caught = True
        if entry.test is not None:
            tests[entry.test.id] = entry.test
            _update_latest(latest, entry.test.run, entry.test.ended)
        if entry.played is not None:
            played.append(entry.played)
    for record in open_waits.values():
        ends = [
            test.ended
            for test in tests.values()
            if (test.run, test.test) == (record.run, record.test) and test.ended >= record.started
        ]
        end = min(ends, default=latest[record.run])
        record.seconds = round(max(end - record.started, 0.0), 3)
        waits[record.id] = record
    for name, count in bare.items():
        if name in runs:
            runs[name].evidence_left_out += count
    _attach_playbacks(tests.values(), played)
    return _report(runs, waits, tests, dropped)


def merge_reports(reports: Iterable[RunReport]) -> RunReport:
    """Merge several reports and remove duplicate records."""
    runs: dict[str, RunRecord] = {}
    waits: dict[str, WaitRecord] = {}
    tests: dict[str, TestRecord] = {}
    dropped: dict[str, int] = {}
    for report in reports:
        for run in report.runs:
            _merge_record(runs, run, _fuller_run)
        for test in report.tests:
            _merge_record(tests, test, lambda a, b: b if a.playback is None else a)
        for wait in report.waits:
            _merge_record(waits, wait, _fuller_wait)
        if len(waits) >= 2 * MAX_WAITS:
            _drop_waits(waits, dropped)
    return _report(runs, waits, tests, dropped)


def hide_values(report: RunReport, mask: SecretMask) -> None:
    """Hide the values of Secrets that became known after a text with them was recorded.

    Such are the verdicts of waits that were met: no Secret is read for them.
    """
    report.waits = [_hide_values(wait, mask) for wait in report.waits]
    report.tests = [_hide_values(test, mask) for test in report.tests]


def _hide_values(record: _Record, mask: SecretMask) -> _Record:
    if not mask.may_match(encode_json(record)):
        return record
    fields = msgspec.to_builtins(record)
    for name in fields.keys() - _IDENTITIES:
        fields[name] = mask_texts(fields[name], mask)
    return msgspec.convert(fields, type(record))


def encode_report(report: RunReport) -> bytes:
    """Return a report as JSON, one line per wait."""
    return b"".join(
        (
            b'{"kwait_report":%d,\n"runs":[' % report.kwait_report,
            b",\n".join(encode_json(run) for run in report.runs),
            b'],\n"tests":[',
            b",\n".join(encode_json(test) for test in report.tests),
            b'],\n"waits":[',
            b",\n".join(encode_json(wait_record) for wait_record in report.waits),
            b"]}\n",
        )
    )


class _Head(msgspec.Struct):
    kwait_report: object = None


_head_decoder = msgspec.json.Decoder(_Head)
_report_decoder = msgspec.json.Decoder(RunReport)


def decode_report(data: bytes, what: str, value: object) -> RunReport:
    """Decode a report from JSON.

    Args:
        data: the JSON.
        what: the name of the argument, for example `FILE`.
        value: its value: the path.

    Raises:
        InvalidArgument: it is no report, one of another version, or broken.
    """
    if not data.strip():
        raise InvalidArgument(what, value, "it is empty: no run has written its report there")
    if data.lstrip().startswith(b"<"):
        raise InvalidArgument(
            what, value, "it is a page to look at; merge the .json that its run wrote with it"
        )
    if data.startswith(b"# Failures\n"):
        raise InvalidArgument(
            what, value, "it is a list of failures to read; use the .json of the same run"
        )
    try:
        check_values(data, what, str(value), lines=False)
        version = _head_decoder.decode(data).kwait_report
    except msgspec.ValidationError:
        version = None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidArgument(what, value, f"it is no whole JSON: {error}") from None
    if version is None:
        raise InvalidArgument(
            what, value, "it is no report: --kwait-report FILE.json writes one, as kwait_report=1"
        )
    if version != VERSION:
        raise InvalidArgument(
            what,
            value,
            f"it is a report of version {version!r}, and this pytest-kwait reads version "
            f"{VERSION}; use the pytest-kwait that wrote it",
        )
    try:
        return _report_decoder.decode(data)
    except msgspec.ValidationError as error:
        raise InvalidArgument(what, value, f"it is a broken report: {error}") from None


def list_omissions(report: RunReport) -> list[str]:
    """Return one sentence for each kind of omission in a report."""
    notes = []
    shards: dict[int, dict[int, list[RunRecord]]] = {}
    for run in report.runs:
        part, _, parts = run.shard.partition("/")
        if part.isdecimal() and parts.isdecimal() and 0 < int(parts) <= MAX_WAITS:
            shards.setdefault(int(parts), {}).setdefault(int(part), []).append(run)
    for total, runs_by_index in sorted(shards.items()):
        missing = [
            f"{index}/{total}" for index in range(1, total + 1) if index not in runs_by_index
        ]
        if missing:
            notes.append(f"not in this report: {_format_names('shard', missing)}")
        for index, runs in sorted(runs_by_index.items()):
            if len(runs) > 1:
                names = ", ".join(run.name for run in runs)
                notes.append(f"shard {index}/{total} is here {len(runs)} times: runs {names}")
    for run in report.runs:
        name = f"run {run.name}" + (f" (shard {run.shard})" if run.shard else "")
        if run.ended is None:
            notes.append(f"{name} was killed: here is what was over until then")
        if run.lost:
            notes.append(f"{name} could not record everything: {run.lost}")
        if run.waits_left_out:
            notes.append(
                f"{name}: {run.waits_left_out} waits are left out; those that did not come true "
                "and the slowest are kept first"
            )
        if run.evidence_left_out:
            notes.append(f"{name}: the evidence of {run.evidence_left_out} waits is left out")
        if run.playbacks_left_out:
            notes.append(
                f"{name}: recordings left out: {run.playbacks_left_out}; kwait replay plays them"
            )
    return notes


def _format_names(noun: str, names: list[str]) -> str:
    shown_names = names[:10]
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return f"{noun}{'s' if len(names) > 1 else ''} {', '.join(shown_names)}{more}"


def _merge_record(
    into: dict[str, _Record], record: _Record, better: Callable[[_Record, _Record], _Record]
) -> None:
    known = into.get(record.id)
    into[record.id] = record if known is None else better(known, record)


def _fuller_run(known: RunRecord, other: RunRecord) -> RunRecord:
    fuller = other if known.ended is None else known
    fuller.waits_left_out = max(known.waits_left_out, other.waits_left_out)
    fuller.evidence_left_out = max(known.evidence_left_out, other.evidence_left_out)
    fuller.playbacks_left_out = max(known.playbacks_left_out, other.playbacks_left_out)
    fuller.passed = sorted({*known.passed, *other.passed})[:MAX_TESTS]
    return fuller


def _fuller_wait(known: WaitRecord, other: WaitRecord) -> WaitRecord:
    def fullness(wait: WaitRecord) -> tuple[bool, int, bool, bool]:
        return wait.outcome != UNFINISHED, len(wait.text), wait.audit is not None, wait.caught

    return max(known, other, key=fullness)


def _attach_playbacks(tests: Iterable[TestRecord], played: list[PlayedTest]) -> None:
    """Give each attempt at a test its playback, which was made before the attempt ended."""
    attempts: dict[tuple[str, str, str], list[TestRecord]] = {}
    for test in sorted(tests, key=lambda test: test.ended):
        attempts.setdefault((test.run, test.test, test.worker), []).append(test)
    # A recording may be written again, with a failure of the teardown.
    latest: dict[tuple[str, str, str, str], PlayedTest] = {}
    for played_test in played:
        key = (played_test.run, played_test.test, played_test.worker, played_test.recording)
        latest[key] = max(latest.get(key, played_test), played_test, key=_end_of)
    for played_test in latest.values():
        made = _end_of(played_test) - _CLOCK_SKEW
        for test in attempts.get((played_test.run, played_test.test, played_test.worker), ()):
            if test.ended >= made and test.playback is None:
                test.playback = played_test.playback
                test.recording = test.recording or played_test.recording
                break


def _end_of(played: PlayedTest) -> float:
    return played.playback.started + played.playback.end


def limit_playbacks(tests: Iterable[TestRecord], room: int) -> list[TestRecord]:
    """Return the tests whose playbacks have room, those that did not pass first.

    Args:
        room: maximum bytes of all.
    """
    retained_tests = []
    for test in sorted(tests, key=lambda test: (test.outcome == "passed", test.ended, test.id)):
        if test.playback is not None:
            size = len(msgspec.json.encode(test.playback))
            if size <= room:
                room -= size
                retained_tests.append(test)
    return retained_tests


def _update_latest(latest: dict[str, float], run: str, at: float) -> None:
    latest[run] = max(latest.get(run, at), at)


def _size(known: WaitRecord | Explanation) -> int:
    return len(known.text) + len(msgspec.json.encode(known.evidence))


def _weight(wait: WaitRecord) -> tuple[bool, float, str]:
    return wait.outcome == "met", -wait.seconds, wait.id


def _name_passed(
    runs: dict[str, RunRecord], tests: Iterable[TestRecord], recorded: set[str]
) -> None:
    """Name the passed tests that have no record in the report."""
    passed: dict[str, set[str]] = {}
    for test in tests:
        if test.outcome == "passed" and test.id not in recorded:
            passed.setdefault(test.run, set()).add(test.test)
    for run_id, names in passed.items():
        if run_id in runs:
            runs[run_id].passed = sorted(names.union(runs[run_id].passed))[:MAX_TESTS]


def _drop_waits(waits: dict[str, WaitRecord], dropped: dict[str, int]) -> None:
    """Drop waits beyond the report's limit, and count them by run."""
    for wait in sorted(waits.values(), key=_weight)[MAX_WAITS:]:
        del waits[wait.id]
        dropped[wait.run] = dropped.get(wait.run, 0) + 1


def _report(
    runs: dict[str, RunRecord],
    waits: dict[str, WaitRecord],
    tests: dict[str, TestRecord],
    dropped: dict[str, int],
) -> RunReport:
    _drop_waits(waits, dropped)
    for run_id, count in dropped.items():
        if run_id in runs:
            runs[run_id].waits_left_out += count
    wait_records = sorted(waits.values(), key=lambda wait: (wait.started, wait.id))
    room = MAX_EVIDENCE
    for wait in wait_records:
        if wait.text or wait.evidence:
            room -= _size(wait)
            if room < 0:
                wait.text, wait.evidence = "", {}
                if wait.run in runs:
                    runs[wait.run].evidence_left_out += 1
    waited = {(wait.run, wait.test) for wait in wait_records}
    test_records = [
        test
        for test in tests.values()
        if test.outcome in BAD_OUTCOMES
        or test.playback is not None
        or test.explored is not None
        or (test.run, test.test) in waited
    ]
    # Keep failures first.
    test_records = sorted(
        test_records, key=lambda test: (test.outcome == "passed", test.ended, test.id)
    )[:MAX_TESTS]
    _name_passed(runs, tests.values(), {test.id for test in test_records})
    played = {test.id for test in limit_playbacks(test_records, MAX_PLAYBACKS)}
    for test in test_records:
        if test.playback is not None and test.id not in played:
            test.playback = None
            if test.run in runs:
                runs[test.run].playbacks_left_out += 1
    return RunReport(
        VERSION,
        sorted(runs.values(), key=lambda run: (run.started, run.id)),
        wait_records,
        sorted(test_records, key=lambda test: (test.ended, test.id)),
    )
