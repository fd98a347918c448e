from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pytest_kwait.client.resource import SECRETS
from pytest_kwait.clock import Deadline
from pytest_kwait.errors import ApiError
from pytest_kwait.simulator.protocol.recording.files import (
    VERSION,
    RawLine,
    RecordingHeader,
    find_times,
    merge_journals,
    read_recording,
)
from pytest_kwait.suite.artifacts.recording import (
    FILE_NAME,
    RecordedTest,
    hide_secret_values,
    learn_secret_values,
    make_recording,
)
from pytest_kwait.suite.report.records import RecordedVerdict, WaitRecord, WaitStarted
from tests.engine.fake_session import FakeSession
from tests.simulator.protocol.recording.lines import (
    STARTED,
    change,
    log,
    recorded_node,
    recorded_pod,
)

if TYPE_CHECKING:
    from pathlib import Path


def hide(text: str) -> str:
    return text.replace("secret", "(hidden)")


def journals(folder: Path) -> Path:
    for name, lines in (
        ("cluster", [change(0.0, "STATE", 1, recorded_node(), "nodes")]),
        (
            "namespaces/t-1",
            [
                change(1.0, "ADDED", 2, recorded_pod(2)),
                log(4.0, "a secret\n"),
                change(5.0, "MODIFIED", 3, recorded_pod(3)),
            ],
        ),
        ("namespaces/t-2", [change(1.0, "ADDED", 4, recorded_pod(4, name="foreign"))]),
    ):
        path = folder / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        parts: list[RecordingHeader | RawLine] = [RecordingHeader(VERSION, STARTED), *lines]
        path.write_bytes(b"".join(msgspec.json.encode(part) + b"\n" for part in parts))
    return folder


def merged(folder: Path) -> list[RawLine]:
    return merge_journals(journals(folder), ["t-1"], 0.0)


def test_a_recording_has_the_test_among_its_objects(tmp_path: Path) -> None:
    wait = WaitRecord(
        "w", "r", "pod t-1/web", "be ready", STARTED + 3.5, 2.0, "failed early",
        changes=[RecordedVerdict(0.1, "a secret")], step="open",
    )  # fmt: skip
    test = RecordedTest(
        "test_a.py::test_it", ["t-1"], STARTED + 3, "r1", "gw0", "v1.36.2",
        failed=STARTED + 6, phase="call", headline="no secret", steps=[(STARTED + 3.2, "open")],
        waits=[wait], begun=[WaitStarted("b", "r", "job t-1/j", "be complete", STARTED + 5.5)],
    )  # fmt: skip
    path = tmp_path / FILE_NAME
    path.write_bytes(make_recording(merged(tmp_path / "j"), test, STARTED + 6.5, hide))

    found = read_recording(path)
    assert found.header == RecordingHeader(
        1, STARTED + 3, "test_a.py::test_it", ["t-1"], "v1.36.2", "r1", "gw0"
    )
    assert [(line.at, line.type, line.key or line.text, line.outcome) for line in found.lines] == [
        (0.0, "STATE", "n-1", ""),
        (0.0, "STATE", "t-1/web", ""),
        (0.2, "STEP", "open", ""),
        (0.5, "WAIT", "pod t-1/web", "failed early"),
        (1.0, "LOG", "a (hidden)\n", ""),
        (2.0, "MODIFIED", "t-1/web", ""),
        (2.5, "WAIT", "job t-1/j", "unfinished"),
        (3.0, "FAILURE", "no (hidden)", "call"),
    ]
    assert found.lines[3].changes == [(0.1, "a (hidden)")]
    assert find_times(found) == "0s to 3.5s, failure at 3s"


def test_a_recording_without_a_start_begins_with_its_namespaces(tmp_path: Path) -> None:
    test = RecordedTest("test_a.py::test_it", ["t-1"])
    path = tmp_path / FILE_NAME
    path.write_bytes(make_recording(merged(tmp_path / "j"), test, STARTED + 6, hide))
    found = read_recording(path)
    assert (found.header.started, found.end, found.failure) == (STARTED + 1, 5.0, None)


def test_values_of_present_secrets_are_hidden_in_earlier_lines() -> None:
    session = FakeSession()
    session.fail("list", SECRETS, ApiError("no", status=403, reason="Forbidden"))
    values = {"user": "postgres", "url": "postgres://postgres:pa55@db"}
    session.put(SECRETS, {"metadata": {"name": "db"}, "stringData": values})
    problems: list[str] = []
    learn_secret_values(session, ["t-0", "t-1"], Deadline.after(9), problems.append)
    text = "dial postgres://postgres:pa55@db failed"
    lines = [
        change(1.0, "ADDED", 2, recorded_pod(2, message=text, name="postgres")),
        log(2.0, text),
        RawLine(3.0, "STEP", text="open"),
    ]
    hide_secret_values(lines)
    shown = msgspec.json.decode(lines[0].object)
    assert shown["status"]["message"] == lines[1].text == "dial (hidden) failed"
    assert shown["metadata"]["name"] == "postgres"
    assert [text.partition(":")[0] for text in problems] == [
        "values of Secrets in t-0 are hidden only if the run knows them"
    ]
