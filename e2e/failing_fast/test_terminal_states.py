"""Waits fail within a terminal state's grace period, with defaults, and name the reason."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from e2e.failing_fast.failing_pods import HOPELESS, LASTING, LOOPING, Hopeless
from pytest_kwait import WaitFailed
from pytest_kwait.client.session import Session
from pytest_kwait.errors import WaitTimeout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_kwait import Kwait

PROMPT = 2.0
"""Seconds after the grace in which a wait must be over."""

TRIES = 3


def complaint(kwait: Kwait, hopeless: Hopeless) -> str:
    """Wait with default settings; return what is wrong with how it ended, empty if nothing is.

    What ends late is waited for again, as it is still hopeless: a busy machine makes late what is
    in time, but hardly each time.
    """
    said = ""
    for _ in range(TRIES):
        said = complaint_of_one(kwait, hopeless)
        if not said.startswith("took"):
            break
    return said


def complaint_of_one(kwait: Kwait, hopeless: Hopeless) -> str:
    """Wait once."""
    try:
        hopeless.wait(kwait.client, kwait.namespace)
    except WaitFailed as error:
        reason, evidence = error.args[0], error.evidence
        if hopeless.reason not in reason:
            return f"does not name {hopeless.reason!r}: {reason}"
        grace = hopeless.grace * Session.of(kwait.client).time_scale
        if (held := held_for(evidence)) > grace + PROMPT:
            return f"took {held:.1f} s from the first sign on, with a grace of {grace} s: {error}"
        return ""
    except WaitTimeout as error:
        return f"waited to its limit: {error}"
    return "came true"


def held_for(evidence: Mapping[str, Any]) -> float:
    """Return how long the wait went on after the first sign of the state that ended it."""
    first = float(evidence["elapsed_seconds"])
    for change in reversed(evidence["timeline"][:-1]):
        if not change["text"].startswith("final if it holds"):
            break
        first = change["at"]
    return float(evidence["elapsed_seconds"]) - first


def complaints(kwait: Kwait, cases: Sequence[Hopeless]) -> dict[str, str]:
    """Let all of them fail at the same time."""
    with ThreadPoolExecutor(len(cases)) as pool:
        kwait.create(*(obj for case in cases for obj in case.objects))
        waits = {case.title: pool.submit(complaint, kwait, case) for case in cases}
        found = {title: wait.result() for title, wait in waits.items()}
    return {title: text for title, text in found.items() if text}


def test_permanent_failures(kwait: Kwait) -> None:
    """After five seconds, or at once where the API says that it is over."""
    assert complaints(kwait, HOPELESS) == {}


def test_transient_failures(kwait: Kwait) -> None:
    """After three quarters of a minute, in which a kubelet has tried again."""
    assert complaints(kwait, LASTING) == {}


@pytest.mark.slow
def test_crash_loops(kwait: Kwait) -> None:
    """From the third restart on, once the pause outlasts the grace: in some 90 seconds."""
    assert complaints(kwait, LOOPING) == {}
