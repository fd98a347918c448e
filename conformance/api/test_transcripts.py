"""Responses to transcripts equal those recorded on a real API server, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from conformance.api.transcript import TRANSCRIPTS, load_transcript, play_transcript
from conformance.recordings import list_scripts, read_recording
from tools.raw_api import RawClient

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait.clusters import Cluster


@pytest.mark.parametrize("path", list_scripts(TRANSCRIPTS), ids=lambda path: path.stem)
def test_transcript_equals_recording(path: Path, kwait_cluster: Cluster) -> None:
    expected: list[dict[str, Any]] = read_recording(path)
    outcomes = list(
        play_transcript(RawClient(kwait_cluster.kubeconfig), load_transcript(path), expected)
    )
    for number, (outcome, wanted) in enumerate(zip(outcomes, expected, strict=True), 1):
        assert outcome == wanted, f"{path.stem}, step {number}: {wanted['do']}"
