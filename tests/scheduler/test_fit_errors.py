from __future__ import annotations

import pytest

from pytest_kwait.scheduler.fit_errors import format_fit_error, format_gates_message
from pytest_kwait.scheduler.framework.cycle_state import Rejection

_CPU = Rejection(("Insufficient cpu",), resolvable=True)
_TAINT = Rejection(("node(s) had untolerated taint(s)",), resolvable=False)
_BOTH = Rejection(("Insufficient cpu", "Insufficient memory"), resolvable=False)


@pytest.mark.parametrize(
    ("rejections", "text"),
    [
        ([], "no nodes available to schedule pods"),
        (
            [_CPU, _CPU],
            "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, "
            "preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.",
        ),
        (
            [_TAINT],
            "0/1 nodes are available: 1 node(s) had untolerated taint(s). "
            "no new claims to deallocate, preemption: 0/1 nodes are available: "
            "1 Preemption is not helpful for scheduling.",
        ),
        (
            [_CPU, _TAINT, _BOTH],
            "0/3 nodes are available: 1 Insufficient memory, 1 node(s) had untolerated taint(s), "
            "2 Insufficient cpu. no new claims to deallocate, preemption: 0/3 nodes are available: "
            "1 No preemption victims found for incoming pod, "
            "2 Preemption is not helpful for scheduling.",
        ),
    ],
)
def test_no_fit_is_said_in_the_schedulers_words(rejections: list[Rejection], text: str) -> None:
    assert format_fit_error(rejections) == text


def test_a_pod_that_never_preempts_says_so() -> None:
    assert format_fit_error([_CPU], may_preempt=False) == (
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
        "preemption: not eligible due to preemptionPolicy=Never."
    )


def test_a_pod_for_which_no_node_was_looked_at_says_why() -> None:
    assert format_fit_error([_TAINT, _TAINT], reason="pod affinity terms conflict") == (
        "0/2 nodes are available: pod affinity terms conflict. not found"
    )


def test_gates_are_listed() -> None:
    assert format_gates_message(["a", "b"]) == "waiting for scheduling gates: [a b]"
