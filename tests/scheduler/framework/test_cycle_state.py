"""The state of one pod's scheduling cycle, and the results of checks."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.scheduler.framework.cycle_state import (
    CycleState,
    NoNodeError,
    PerPod,
    PreFilterResult,
    Rejection,
)
from pytest_kwait.scheduler.framework.pod_info import PodInfo
from tests.cache.fakes import pod_at

POD = PodInfo(pod_at("a", 1))


class Lister:
    """Counts what it is asked."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def namespace_labels(self, name: str) -> dict[str, str] | None:
        self.calls.append(name)
        return None if name == "gone" else {"team": name}

    def spread_selectors(self, pod: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"matchLabels": {"app": pod["metadata"]["name"]}}]


def test_labels_of_a_namespace_are_asked_for_once_in_a_cycle() -> None:
    lister = Lister()
    cycle = CycleState(POD, [], lister)
    assert [cycle.namespace_labels(name) for name in ("a", "gone", "a", "gone")] == [
        {"team": "a"},
        None,
        {"team": "a"},
        None,
    ]
    assert lister.calls == ["a", "gone"]


def test_a_lister_without_namespaces_and_services() -> None:
    cycle = CycleState(POD, [])
    assert cycle.namespace_labels("a") == {"kubernetes.io/metadata.name": "a"}
    assert list(cycle.spread_selectors()) == []


def test_spread_selectors_are_those_of_the_pod() -> None:
    assert CycleState(POD, [], Lister()).spread_selectors() == [{"matchLabels": {"app": "a"}}]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Rejection("busy"), (  # type: ignore[arg-type]
            "reasons='busy' is not valid: use a tuple of texts: ('busy',)"
        )),
        (lambda: Rejection(("",)), (
            "reasons='' is not valid: use a string that is not empty"
        )),
        (lambda: Rejection(("busy",), resolvable=1), (  # type: ignore[arg-type]
            "resolvable=1 is not valid: use True or False"
        )),
        (lambda: PreFilterResult("n1"), (  # type: ignore[arg-type]
            "names='n1' is not valid: use a set of node names"
        )),
        (lambda: PreFilterResult(frozenset(), check=3), (  # type: ignore[arg-type]
            "check=3 is not valid: use a function of a node, or None"
        )),
        (lambda: NoNodeError(""), "reason='' is not valid: use a string that is not empty"),
        (lambda: PerPod(3), "function=3 is not valid: use a function"),
    ],
)  # fmt: skip
def test_invalid_results_are_refused(make: Any, message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        make()
    assert str(caught.value) == message
