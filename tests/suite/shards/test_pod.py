"""Results in the log of a pod."""

from __future__ import annotations

import random

import pytest

from pytest_kwait.suite.shards.pod import ShardResults, pack_results, unpack_results

FILES = {"junit.xml": b"<testsuites/>", "report.json": random.Random(1).randbytes(20_000)}


@pytest.mark.parametrize("before", ["", "collected 3 items\n", "no newline at its end"])
def test_results_round_trip_through_the_log(before: str) -> None:
    log = before + pack_results(1, FILES)
    assert unpack_results(log) == ShardResults(1, FILES, before)
    assert max(len(line) for line in log.splitlines()) <= 4100


def test_the_last_results_count() -> None:
    """A test may print those of another run."""
    log = pack_results(0, {}) + "and then\n" + pack_results(3, FILES)
    assert unpack_results(log) == ShardResults(3, FILES, pack_results(0, {}) + "and then\n")


WHOLE = pack_results(1, FILES)


@pytest.mark.parametrize(
    "log",
    [
        "",
        "no results",
        WHOLE[: len(WHOLE) // 2],
        WHOLE.replace("kwait-shard-results-end", ""),
        WHOLE[:2000] + WHOLE[2010:],
        WHOLE[:2000] + "é" + WHOLE[2001:],
        "kwait-shard-results \nkwait-shard-results-end",
        "kwait-shard-results x y\nkwait-shard-results-end",
    ],
)
def test_truncated_results_are_refused(log: str) -> None:
    assert unpack_results(log) is None
