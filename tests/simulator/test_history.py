from __future__ import annotations

import asyncio
import errno
import os
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.clock import async_sleep
from pytest_kwait.simulator import history
from pytest_kwait.simulator.history import (
    HistoryJournals,
    get_recordings,
)
from pytest_kwait.simulator.protocol.recording import journal
from pytest_kwait.simulator.protocol.recording.files import read_recording
from tests.objects import config_map, pod
from tests.simulator.cluster import new_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_kwait.simulator.cluster import SimulatedCluster
    from pytest_kwait.simulator.kubelet_api import LogLine
    from pytest_kwait.simulator.protocol.recording.files import RecordedLine


class Wall:
    """A wall clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        raise AssertionError("journals do not sleep")

    def wait(self, event: Any, timeout: float | None = None) -> bool:
        raise AssertionError("journals do not wait")


class Log:
    """The log of a container."""

    def __init__(self, *lines: LogLine) -> None:
        self.lines = list(lines)

    def read_from(self, position: int) -> tuple[int, list[LogLine]]:
        return len(self.lines), self.lines[position:]


class Kubelet:
    """A kubelet with one container."""

    def __init__(self, log: Log) -> None:
        self.log = log

    def container_logs(self) -> Iterator[tuple[Any, Log]]:
        yield journal_place(), self.log


def journal_place() -> Any:
    from pytest_kwait.simulator.kubelet_api import LogPlace

    return LogPlace("t-1", "web", "c", "i-1")


@pytest.fixture
def api() -> SimulatedCluster:
    api = new_cluster()
    api.create("serviceaccounts", {"metadata": {"name": "default"}}, "kube-system")
    return api


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def journals(api: SimulatedCluster, wall: Wall, tmp_path: Path) -> Iterator[HistoryJournals]:
    found = HistoryJournals(api, tmp_path / "history", wall)
    yield found
    found.stop()


def add_namespace(api: SimulatedCluster, name: str = "t-1") -> None:
    api.create("namespaces", {"metadata": {"name": name}})
    api.create("serviceaccounts", {"metadata": {"name": "default"}}, name)


def own(lines: list[RecordedLine]) -> list[tuple[float, str, str]]:
    return [
        (line.at, line.type, f"{line.resource}/{line.key}")
        for line in lines
        if line.key.startswith("t-1")
    ]


def test_a_namespace_has_every_change_with_its_time(
    api: SimulatedCluster, wall: Wall, journals: HistoryJournals
) -> None:
    wall.now += 1
    add_namespace(api)
    wall.now += 2
    api.create("configmaps", config_map(a="1"), "t-1")
    api.modify("configmaps", "a", "t-1", lambda one: one.update(data={"a": "2"}))
    wall.now += 0.5
    api.delete("configmaps", "a", "t-1")
    journals.flush()

    found = read_recording(journals.folder)
    assert own(found.lines) == [
        (0.0, "STATE", "namespaces/t-1"),
        (0.0, "STATE", "serviceaccounts/t-1/default"),
        (2.0, "ADDED", "configmaps/t-1/a"),
        (2.0, "MODIFIED", "configmaps/t-1/a"),
        (2.5, "DELETED", "configmaps/t-1/a"),
    ]
    assert [line.object["data"] for line in found.lines if line.resource == "configmaps"][-3:] == [
        {"a": "1"},
        {"a": "2"},
        {"a": "2"},
    ]
    assert {line.resource for line in found.lines if "/" not in line.key} >= {
        "namespaces",
        "priorityclasses.scheduling.k8s.io",
    }


def test_what_was_there_before_is_a_state(
    api: SimulatedCluster, wall: Wall, tmp_path: Path
) -> None:
    add_namespace(api)
    found = HistoryJournals(api, tmp_path, wall)
    found.stop()
    api.create("configmaps", config_map(), "t-1")
    assert own(read_recording(tmp_path).lines) == [
        (0.0, "STATE", "namespaces/t-1"),
        (0.0, "STATE", "serviceaccounts/t-1/default"),
    ]


def test_data_and_values_of_secrets_are_left_out(
    api: SimulatedCluster, wall: Wall, journals: HistoryJournals
) -> None:
    add_namespace(api)
    metadata = {
        "name": "open-sesame",
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "open-sesame"},
    }
    api.create("secrets", {"metadata": metadata, "stringData": {"a": "open-sesame"}}, "t-1")
    api.create("configmaps", config_map("open-sesame", a='say "open-sesame"'), "t-1")
    api.kubelets["n-1"] = Kubelet(Log((api.clock.time(), b"open-sesame\n")))  # type: ignore[assignment] # a part of it
    journals.flush()
    lines = {line.resource or line.type: line for line in read_recording(journals.folder).lines}
    secret = lines["secrets"].object
    assert (secret["data"], secret["metadata"].get("annotations")) == ({"a": ""}, {})
    assert lines["configmaps"].object["data"] == {"a": 'say "(hidden)"'}
    assert lines["configmaps"].object["metadata"]["name"] == "open-sesame"
    assert lines["LOG"].text == "(hidden)\n"


def test_values_of_secrets_of_other_namespaces_are_hidden(
    api: SimulatedCluster, journals: HistoryJournals
) -> None:
    """The log of a shared operator has them, and so may its objects."""
    for name in ("t-1", "t-2"):
        add_namespace(api, name)
    secret = {"metadata": {"name": "db"}, "stringData": {"a": "open-sesame"}}
    api.create("secrets", secret, "t-2")
    api.create("configmaps", config_map(a="say open-sesame"), "t-1")
    api.kubelets["n-1"] = Kubelet(Log((api.clock.time(), b"open-sesame\n")))  # type: ignore[assignment] # a part of it
    journals.flush()
    lines = {line.key or line.type: line for line in read_recording(journals.folder).lines}
    assert lines["t-1/a"].object["data"] == {"a": "say (hidden)"}
    assert lines["LOG"].text == "(hidden)\n"


def test_values_are_hidden_in_texts_from_before_their_secret(
    api: SimulatedCluster, journals: HistoryJournals
) -> None:
    add_namespace(api)
    metadata = {"name": "db"}
    api.create("configmaps", config_map(a="say open-sesame"), "t-1")
    for number in range(300):  # more than a batch
        api.create("configmaps", config_map(f"b-{number}"), "t-1")
    api.create("secrets", {"metadata": metadata, "stringData": {"a": "open-sesame"}}, "t-1")
    journals.flush()
    lines = {line.key: line for line in read_recording(journals.folder).lines}
    assert lines["t-1/a"].object["data"] == {"a": "say (hidden)"}


def test_values_of_secrets_from_before_are_hidden(
    api: SimulatedCluster, wall: Wall, tmp_path: Path
) -> None:
    add_namespace(api)
    api.create("configmaps", config_map(a="say open-sesame"), "t-1")
    metadata = {"name": "db"}
    api.create("secrets", {"metadata": metadata, "stringData": {"a": "open-sesame"}}, "t-1")
    HistoryJournals(api, tmp_path, wall).stop()
    lines = {line.key: line for line in read_recording(tmp_path).lines}
    assert lines["t-1/a"].object["data"] == {"a": "say (hidden)"}


@pytest.mark.parametrize("flushed", [False, True], ids=["at once", "after a flush"])
def test_a_namespace_that_is_made_again_keeps_its_earlier_part(
    api: SimulatedCluster, wall: Wall, journals: HistoryJournals, flushed: bool
) -> None:
    add_namespace(api)
    wall.now += 1
    api.create("configmaps", config_map(a="1"), "t-1")
    if flushed:
        journals.flush()
    wall.now += 1
    api.store.remove("serviceaccounts", "t-1/default")
    api.store.remove("configmaps", "t-1/a")
    api.store.remove("namespaces", "t-1")
    if flushed:
        journals.flush()
    wall.now += 5
    add_namespace(api)
    api.create("configmaps", config_map(a="2"), "t-1")
    journals.flush()

    found = [line for line in read_recording(journals.folder).lines if line.key == "t-1/a"]
    assert [(line.at, line.type, line.object["data"]["a"]) for line in found] == [
        (1.0, "ADDED", "1"),
        (2.0, "DELETED", "1"),
        (7.0, "ADDED", "2"),
    ]


def test_logs_are_written_once_at_the_time_of_the_wall_clock(
    api: SimulatedCluster, wall: Wall, journals: HistoryJournals
) -> None:
    add_namespace(api)
    log = Log((api.clock.time() + 1, b"one\n"))
    api.kubelets["n-1"] = Kubelet(log)  # type: ignore[assignment] # a part of it
    journals.flush()
    log.lines.append((api.clock.time() + 2, b"two \xff\n"))
    journals.flush()
    found = [line for line in read_recording(journals.folder).lines if line.type == "LOG"]
    assert [(line.at, line.pod, line.instance, line.text) for line in found] == [
        (1.0, "web", "i-1", "one\n"),
        (2.0, "web", "i-1", "two �\n"),
    ]


def test_a_large_journal_is_divided(
    api: SimulatedCluster,
    wall: Wall,
    journals: HistoryJournals,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(journal, "_MAX_PART", 2000)
    add_namespace(api)
    api.create("configmaps", config_map(a="0"), "t-1")
    for number in range(1, 40):
        wall.now += 1
        data = {"data": {"a": f"{number}"}}
        api.modify("configmaps", "a", "t-1", partial(_update, data))
        journals.flush()
    files = sorted(path.name for path in (journals.folder / "namespaces").iterdir())
    assert files == ["t-1.jsonl", "t-1.older.jsonl"]
    found = [
        line for line in read_recording(journals.folder).lines if line.resource == "configmaps"
    ]
    numbers = [int(line.object["data"]["a"]) for line in found if line.key == "t-1/a"]
    assert numbers == list(range(numbers[0], 40))
    assert 1 < len(numbers) < 40


def _update(data: dict[str, Any], one: dict[str, Any]) -> None:
    one.update(data)


def test_the_journal_of_a_removed_namespace_stays_for_a_minute(
    api: SimulatedCluster, wall: Wall, journals: HistoryJournals
) -> None:
    add_namespace(api)
    path = journals.folder / "namespaces" / "t-1.jsonl"
    journals.flush()
    api.store.remove("serviceaccounts", "t-1/default")
    api.store.remove("namespaces", "t-1")
    wall.now += 1
    journals.flush()
    assert path.exists()
    add_namespace(api)
    wall.now += 100
    journals.flush()
    assert path.exists()
    api.store.remove("namespaces", "t-1")
    journals.flush()
    wall.now += 61
    journals.flush()
    assert not path.exists()


def test_a_full_disk_ends_the_recording_alone(
    api: SimulatedCluster, journals: HistoryJournals, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(_file: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    add_namespace(api)
    monkeypatch.setattr(os, "write", write)
    journals.flush()
    monkeypatch.undo()
    api.create("configmaps", config_map(), "t-1")
    journals.flush()
    assert journals.trouble == f"{journals.folder}: No space left on device"


def test_a_cluster_flushes_by_itself_and_stops_once(
    api: SimulatedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "_FLUSH_SECONDS", 0.0)

    async def record() -> None:
        first = get_recordings(api).record(tmp_path)
        add_namespace(api)
        api.create("pods", pod(), "t-1")
        while not (tmp_path / "namespaces" / "t-1.jsonl").exists():
            await async_sleep(0)
        assert get_recordings(api).record(tmp_path) is first
        get_recordings(api).stop()
        get_recordings(api).stop()

    asyncio.run(record())
    assert (0.0, "STATE", "serviceaccounts/t-1/default") in own(read_recording(tmp_path).lines)
