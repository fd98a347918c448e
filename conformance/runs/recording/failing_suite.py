"""A suite whose tests fail on the pods of `failing_fast`, and note what kubectl answered then.

Run by `test_replay` in a process of its own, which copies it into a folder.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conformance.failing_fast.failing_pods import FAILING, LASTING, LOOPING, FailingPod
from conformance.runs.recording.answers import QUESTIONS, without_ages
from pytest_kwait import WaitFailed
from pytest_kwait.clock import SYSTEM_CLOCK, Deadline

if TYPE_CHECKING:
    from pytest_kwait import Kwait

GROUPS = {"failing": FAILING, "lasting": LASTING, "looping": LOOPING}
LIMIT = 120.0
PAUSE = 0.5
"""Seconds after which a cluster that was not at rest is asked again, by two programs."""


def error_of(kwait: Kwait, case: FailingPod) -> WaitFailed:
    """Return the error of a wait that fails early."""
    with pytest.raises(WaitFailed) as caught:
        case.wait(kwait.client, kwait.namespace)
    return caught.value


def answers(kwait: Kwait) -> list[str]:
    """Return what kubectl answers now."""
    return [without_ages(kwait.kubectl(*question).stdout) for question in QUESTIONS]


@pytest.mark.parametrize("group", GROUPS)
def test_group(kwait: Kwait, group: str) -> None:
    """Fail with the error of the group's first case, between two equal answers of kubectl."""
    cases = GROUPS[group]
    kwait.create(*(obj for case in cases for obj in case.objects))
    with ThreadPoolExecutor(len(cases)) as pool:
        errors = list(pool.map(lambda case: error_of(kwait, case), cases))
    deadline = Deadline.after(LIMIT)
    before = answers(kwait)
    while not deadline.expired:
        moment = SYSTEM_CLOCK.time()
        after = answers(kwait)
        if after == before:
            break
        before = after
        SYSTEM_CLOCK.sleep(PAUSE)
    else:
        pytest.fail("the cluster was never at rest")
    facts = {"moment": moment, "answers": after}
    Path(f"{group}.json").write_text(json.dumps(facts), encoding="utf-8")
    raise errors[0]
