"""Egress of a cluster: requests, what another cluster ignores, and the fixture's values."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_kwait.clusters.egress import Egress, describe_ignored_egress, read_egress_fixture
from pytest_kwait.errors import InvalidArgument
from tests.clusters.fault_transport import HOLD, SERVER, FaultTransport

if TYPE_CHECKING:
    from pytest_kwait.client.session import ApiSession


def egress_of(transport: FaultTransport) -> Egress:
    session = cast("ApiSession", SimpleNamespace(transport=transport))
    return Egress(lambda: session, SERVER)


def test_a_target_is_allowed_until_it_is_undone() -> None:
    transport = FaultTransport()
    egress = egress_of(transport)
    with egress.allow("localhost:80"):
        assert transport.asked[0] == HOLD
        body = {"kind": "egress", "egress": "host.kwait.internal:80", "holder": "h1"}
        assert transport.asked[1] == ("POST", "/kwait/v1/faults", body)
    assert transport.asked[-1][:2] == ("DELETE", "/kwait/v1/faults/f2")
    egress.close()
    assert transport.open_holds == 0


def test_an_invalid_target_is_not_sent() -> None:
    transport = FaultTransport()
    with pytest.raises(InvalidArgument, match=r"^egress='pypi\.org' is not valid: use HOST:PORT "):
        egress_of(transport).allow("pypi.org")
    assert transport.asked == []


@pytest.mark.parametrize("status", [403, 404])
def test_a_cluster_with_a_network_of_its_own_ignores_targets(status: int) -> None:
    egress = egress_of(FaultTransport(status))
    egress.allow("b.org:1").undo()
    egress.allow("b.org:1")
    assert egress.ignored == ["b.org:1"]


@pytest.mark.parametrize(
    ("targets", "shown"),
    [(["b", "a", "b"], "a, b"), (list("abcdef"), "a, b, c, d, e, …")],
)
def test_ignored_targets_are_one_line(targets: list[str], shown: str) -> None:
    assert describe_ignored_egress(targets, "https://h") == (
        f"allowed egress is not used ({shown}): https://h is not an embedded cluster, its own "
        "network decides"
    )


def test_the_fixture_gives_texts() -> None:
    assert read_egress_fixture(("a.org:1",)) == [("a.org", 1)]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            "a.org:1",
            "fixture kwait_egress='a.org:1' is not valid: it returns a list, as [\"pypi.org:443\"]",
        ),
        (
            None,
            'fixture kwait_egress=None is not valid: it returns a list, as ["pypi.org:443"]',
        ),
        (
            ["a.org:1", "a.org:1"],
            "egress='a.org:1' (from fixture kwait_egress) is not valid: it is given twice; leave "
            "one out",
        ),
    ],
)
def test_an_invalid_value_of_the_fixture_names_it(given: Any, message: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        read_egress_fixture(given)
    assert str(error.value) == message
