"""Responses to transcripts equal those recorded on a real API server, step by step."""

from __future__ import annotations

import fcntl
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from conformance.api.transcript import TRANSCRIPTS, load_transcript, play_transcript
from conformance.recordings import list_scripts, read_recording
from tools.controlplane.polling import poll_until
from tools.raw_api import RawClient

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_kwait.clusters import Cluster


_RANGE_SECONDS = 120
"""Seconds in which a deleted range is gone, which keeps a finalizer for a while."""


@pytest.mark.parametrize("path", list_scripts(TRANSCRIPTS), ids=lambda path: path.stem)
def test_transcript_equals_recording(
    path: Path, kwait_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    expected: list[dict[str, Any]] = read_recording(path)
    steps, endpoint = load_transcript(path), RawClient(kwait_cluster.kubeconfig)
    with _service_addresses(endpoint, steps, tmp_path_factory.getbasetemp().parent):
        outcomes = list(play_transcript(endpoint, steps, expected))
    for number, (outcome, wanted) in enumerate(zip(outcomes, expected, strict=True), 1):
        assert outcome == wanted, f"{path.stem}, step {number}: {wanted['do']}"


@contextmanager
def _service_addresses(
    endpoint: RawClient, steps: list[dict[str, Any]], folder: Path
) -> Iterator[None]:
    """Keep a range of addresses that comes and goes apart from Services that are only tried.

    An API server tries a Service on any range, and refuses it where that is not ready, or no more.

    Args:
        folder: a folder that all workers share.
    """
    requests = [str(step.get("do")) for step in steps]
    makes_range = any("/servicecidrs" in each and "dryRun" not in each for each in requests)
    with (folder / "service_addresses.lock").open("w") as lock:
        if makes_range or any("/services?dryRun" in each for each in requests):
            fcntl.flock(lock, fcntl.LOCK_EX if makes_range else fcntl.LOCK_SH)
        yield
        if makes_range:
            assert poll_until(lambda: len(_list_ranges(endpoint)) == 1, _RANGE_SECONDS, 0.5)


def _list_ranges(endpoint: RawClient) -> list[Any]:
    """Return the ranges of addresses of Services."""
    answer = endpoint.request("GET", "/apis/networking.k8s.io/v1/servicecidrs")
    ranges: list[Any] = answer.body["items"]
    return ranges
