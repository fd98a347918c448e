"""Responses to transcripts equal those recorded on a real API server, step by step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conformance.api.transcript import load_transcript, play_transcript
from tools.raw_api import RawClient

if TYPE_CHECKING:
    from pytest_kwait.clusters import Cluster

TRANSCRIPTS = sorted(Path(__file__).with_name("transcripts").glob("*.yaml"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript_equals_recording(path: Path, kwait_cluster: Cluster) -> None:
    recording = path.parent.with_name("recordings") / f"{path.stem}.json"
    expected: list[dict[str, Any]] = json.loads(recording.read_text())
    outcomes = list(
        play_transcript(RawClient(kwait_cluster.kubeconfig), load_transcript(path), expected)
    )
    for number, (outcome, wanted) in enumerate(zip(outcomes, expected, strict=True), 1):
        assert outcome == wanted, f"{path.stem}, step {number}: {wanted['do']}"
