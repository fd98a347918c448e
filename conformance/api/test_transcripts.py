"""Responses to transcripts equal those recorded on a real API server, step by step."""

from __future__ import annotations

import fcntl
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from conformance.api.transcript import TRANSCRIPTS, load_transcript, play_transcript
from conformance.recordings import list_scripts, read_recording
from tools.raw_api import RawClient

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_kwait.clusters import Cluster


@pytest.mark.parametrize("path", list_scripts(TRANSCRIPTS), ids=lambda path: path.stem)
def test_transcript_equals_recording(
    path: Path, kwait_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    expected: list[dict[str, Any]] = read_recording(path)
    steps = load_transcript(path)
    with _service_addresses(steps, tmp_path_factory.getbasetemp().parent):
        outcomes = list(play_transcript(RawClient(kwait_cluster.kubeconfig), steps, expected))
    for number, (outcome, wanted) in enumerate(zip(outcomes, expected, strict=True), 1):
        assert outcome == wanted, f"{path.stem}, step {number}: {wanted['do']}"


@contextmanager
def _service_addresses(steps: list[dict[str, Any]], folder: Path) -> Iterator[None]:
    """Keep a new range of addresses apart from Services that are only tried.

    An API server tries a Service on any range, and refuses it while that is not ready yet.

    Args:
        folder: a folder that all workers share.
    """
    requests = [str(step.get("do")) for step in steps]
    makes_range = any("/servicecidrs" in each and "dryRun" not in each for each in requests)
    with (folder / "service_addresses.lock").open("w") as lock:
        if makes_range or any("/services?dryRun" in each for each in requests):
            fcntl.flock(lock, fcntl.LOCK_EX if makes_range else fcntl.LOCK_SH)
        yield
