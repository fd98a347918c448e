"""Waits fail within a terminal state's grace period, with defaults, and name the reason."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.config import new_client_from_config

from conformance.failing_fast.failing_pods import FAILING, LASTING, LOOPING, FailingPod
from e2e.objects import TYPO, container, pod
from pytest_kwait import WaitFailed, WaitTimeout, wait_for_pod_ready
from pytest_kwait.client.session import ApiSession

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_kwait import Kwait

PROMPT = 2.0
"""Seconds after the grace in which a wait must be over."""

TRIES = 3


def complaint(kwait: Kwait, case: FailingPod) -> str:
    """Wait with default settings; return the defect of its end, empty for none.

    What ends late is waited for again, as it still fails: a busy machine makes late what is
    in time, but hardly each time.
    """
    output = ""
    for _ in range(TRIES):
        output = complaint_of_one(kwait, case)
        if not output.startswith("took"):
            break
    return output


def complaint_of_one(kwait: Kwait, case: FailingPod) -> str:
    """Wait once."""
    try:
        case.wait(kwait.client, kwait.namespace)
    except WaitFailed as error:
        reason, evidence = error.args[0], error.evidence
        if case.reason not in reason:
            return f"does not name {case.reason!r}: {reason}"
        grace = case.grace * ApiSession.of(kwait.client).time_scale
        if (held := held_for(evidence)) > grace + PROMPT:
            return f"took {held:.1f} s from the first sign on, with a grace of {grace} s: {error}"
        return ""
    except WaitTimeout as error:
        return f"waited to its limit: {error}"
    return "came true"


def held_for(evidence: Mapping[str, Any]) -> float:
    """Return the seconds from the first sign of the terminal state to the wait's end."""
    first = float(evidence["elapsed_seconds"])
    for change in reversed(evidence["timeline"][:-1]):
        if not change["text"].startswith("final if it holds"):
            break
        first = change["at"]
    return float(evidence["elapsed_seconds"]) - first


def complaints(kwait: Kwait, cases: Sequence[FailingPod]) -> dict[str, str]:
    """Run all of them at the same time."""
    with ThreadPoolExecutor(len(cases)) as pool:
        kwait.create(*(obj for case in cases for obj in case.objects))
        waits = {case.title: pool.submit(complaint, kwait, case) for case in cases}
        found = {title: wait.result() for title, wait in waits.items()}
    return {title: text for title, text in found.items() if text}


def test_permanent_failures(kwait: Kwait) -> None:
    """After five seconds, or at once if the API reports the end."""
    assert complaints(kwait, FAILING) == {}


def test_transient_failures(kwait: Kwait) -> None:
    """After 45 seconds, in which a kubelet has retried."""
    assert complaints(kwait, LASTING) == {}


@pytest.mark.kwait_slow
def test_crash_loops(kwait: Kwait) -> None:
    """With the third crash, at least a grace after the first: about a minute."""
    assert complaints(kwait, LOOPING) == {}


def test_a_client_of_the_user_has_the_graces_of_the_cluster(kwait: Kwait) -> None:
    """The cluster says its time in its answers; a real one says nothing."""
    read: Any = new_client_from_config
    client = read(str(kwait.cluster.kubeconfig), context=kwait.cluster.context)
    kwait.create(pod("typo", container(**TYPO)))

    graces = set()
    for wait in (kwait.wait_for_pod_ready, partial(wait_for_pod_ready, client, kwait.namespace)):
        with pytest.raises(WaitFailed) as caught:
            wait("typo", timeout="4m")
        texts = [change["text"] for change in caught.value.evidence["timeline"]]
        graces.add(next(t.partition(":")[0] for t in texts if t.startswith("final if it holds")))

    assert len(graces) == 1
