from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.scheduler.algorithm import (
    Algorithm,
    AlgorithmError,
    CycleState,
    FitError,
    NodeInfo,
    NoNodeError,
    PerPod,
    PreFilterResult,
    Rejection,
    register_predicate,
)

_POD = {"metadata": {"name": "web", "namespace": "ci"}, "spec": {}}
_PREDICATE = "a predicate returns None if the pod fits, else the reason or a Rejection"
_PRIORITY = "a priority returns a whole number from 0 to 100"


class Nodes:
    def __init__(self, *names: str) -> None:
        self._nodes = [NodeInfo({"metadata": {"name": name}, "status": {}}) for name in names]

    def list(self) -> list[NodeInfo]:
        return self._nodes

    def get(self, name: str) -> NodeInfo | None:
        return next((node for node in self._nodes if node.name == name), None)


def answering(answer: Any) -> Any:
    def mine(*arguments: object) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    return mine


def failure(**parts: Any) -> str:
    parts = {"predicates": [], "priorities": {}} | parts
    with pytest.raises(AlgorithmError) as caught:
        Algorithm(**parts).schedule(_POD, Nodes("n-1", "n-2"))
    return str(caught.value)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (True, f"returned True for pod ci/web on node n-1; {_PREDICATE}"),
        (False, f"returned False for pod ci/web on node n-1; {_PREDICATE}"),
        ("", f"returned '' for pod ci/web on node n-1; {_PREDICATE}"),
        (["full"], f"returned ['full'] for pod ci/web on node n-1; {_PREDICATE}"),
        (KeyError("zone"), "raised KeyError('zone') for pod ci/web on node n-1"),
    ],
)
def test_invalid_answers_of_predicates(answer: Any, text: str) -> None:
    assert failure(predicates=[answering(answer)]) == f"predicate mine {text}"
    per_pod = PerPod(lambda cycle: answering(answer))
    assert failure(predicates=[per_pod]) == f"predicate <lambda> {text}"
    limited = PerPod(lambda cycle: PreFilterResult(frozenset({"n-1"}), answering(answer)))
    assert failure(predicates=[limited]) == f"predicate <lambda> {text}"


def test_invalid_answers_of_predicates_per_pod() -> None:
    assert failure(predicates=[PerPod(answering(True))]) == (
        "predicate mine returned True for pod ci/web; a predicate per pod returns a function of a "
        "node, a PreFilterResult or None"
    )
    assert failure(predicates=[PerPod(answering(KeyError("zone")))]) == (
        "predicate mine raised KeyError('zone') for pod ci/web"
    )


def test_registered_predicate_is_named_as_registered() -> None:
    register_predicate("ZoneFits", answering(True))
    assert failure(predicates=["ZoneFits"]) == (
        f"predicate ZoneFits returned True for pod ci/web on node n-1; {_PREDICATE}"
    )


@pytest.mark.parametrize("answer", [-1, 101, True, None, 1.5, "10"])
def test_invalid_scores(answer: Any) -> None:
    text = f"returned {answer!r} for pod ci/web on node n-1; {_PRIORITY}"
    assert failure(priorities={answering(answer): 1}) == f"priority mine {text}"
    per_pod = PerPod(lambda cycle, fitting: [answer] * len(fitting))
    assert failure(priorities={per_pod: 1}) == f"priority <lambda> {text}"


def test_other_errors_of_priorities() -> None:
    error = KeyError("zone")
    assert failure(priorities={answering(error): 1}) == (
        "priority mine raised KeyError('zone') for pod ci/web on node n-1"
    )
    assert failure(priorities={PerPod(answering(error)): 1}) == (
        "priority mine raised KeyError('zone') for pod ci/web"
    )
    assert failure(priorities={PerPod(answering([1])): 1}) == (
        "priority mine returned [1] for pod ci/web; a priority per pod returns 2 scores, one for "
        "each node, or None"
    )


def test_valid_answers_are_taken() -> None:
    def fits(pod: Any, info: NodeInfo) -> str | Rejection | None:
        if info.name == "n-1":
            return "full"
        return Rejection(("busy",)) if info.name == "n-2" else None

    def no_node(cycle: CycleState) -> Any:
        raise NoNodeError("none at all")

    priorities: dict[Any, int] = {
        answering(0): 1,
        answering(100): 1,
        PerPod(answering(None)): 1,
        PerPod(lambda cycle, fitting: [5, 9]): 1,
    }
    algorithm = Algorithm([fits, PerPod(answering(None))], priorities)
    assert algorithm.schedule(_POD, Nodes("n-1", "n-2", "n-3", "n-4")) == "n-4"
    with pytest.raises(FitError, match="none at all"):
        Algorithm([PerPod(no_node)], {}).schedule(_POD, Nodes("n-1"))
