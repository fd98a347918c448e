"""The kopf operator without mistakes passes the checks that find each of them."""

from __future__ import annotations

import fcntl
from typing import TYPE_CHECKING

import pytest

from conformance.explore.kopf_tests import TESTS, check_pages
from e2e.conftest import MAPPINGS, PROGRAMS
from e2e.raising import raises
from pytest_kwait import WaitTimeout
from tests.simulator.exploration.seeds import find_seed

pytest.importorskip("kopf", reason="kopf is not installed")

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.explore.kopf_tests import StartKopf
    from pytest_kwait import Cluster, Kwait

pytestmark = [
    pytest.mark.needs(PROGRAMS),
    pytest.mark.kwait_skip_unless_programs_isolated,
    pytest.mark.usefixtures("_turn"),
]

REFUSED = "request patch configmaps shop-page by sites/OpenAPI-Generator 1"


@pytest.fixture
def _turn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let one operator of this module run at a time.

    A cluster has one exploration, and a refusal meets the first of these operators that writes the
    page, whose request it names without a namespace. Serial tests would not do, as others start
    runs of pytest on this cluster.
    """
    with (tmp_path_factory.getbasetemp().parent / "exploration.lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        yield


@pytest.fixture
def _refused(_turn: None, kwait_cluster: Cluster) -> Iterator[None]:
    """Refuse the operator's first write of one page, as the command of a failure does."""
    exploration = kwait_cluster.exploration
    seed = find_seed("harsh", [("too-many-requests", REFUSED)])
    exploration.start(seed, "harsh", [f"too-many-requests@{REFUSED}"])
    yield
    assert exploration.end().decisions == (f"too-many-requests@{REFUSED}",)


def test_kopf_operator(kwait: Kwait, start_kopf: StartKopf) -> None:
    """One operator serves the Sites of all checks."""
    start_kopf("")
    for check in TESTS.values():
        check(kwait)


@pytest.mark.needs(MAPPINGS)
@pytest.mark.usefixtures("_refused")
def test_refused_request_is_tried_again(kwait: Kwait, start_kopf: StartKopf) -> None:
    start_kopf("")
    check_pages(kwait)


@pytest.mark.needs(MAPPINGS)
@pytest.mark.usefixtures("_refused")
@pytest.mark.kwait(timeout="10s")
def test_refused_request_is_lost_by_the_mistake(kwait: Kwait, start_kopf: StartKopf) -> None:
    start_kopf("ignored_refusal")
    with raises(WaitTimeout, "configmap shop-page did not get created"):
        check_pages(kwait)
