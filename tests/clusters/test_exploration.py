"""Explorations of a cluster: requests, and what they have perturbed."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_kwait.clusters.exploration import AppliedPerturbations, ExplorationControl
from pytest_kwait.clusters.faults import NotEmbeddedError
from pytest_kwait.errors import ApiError

if TYPE_CHECKING:
    from pytest_kwait.client.session import ApiSession

SERVER = "https://127.0.0.1:6443"
PATH = "/kwait/v1/exploration"


class ExplorationServer:
    """Answers requests; refuses them with a status if there is one."""

    def __init__(self, status: int = 0) -> None:
        self.status = status
        self.asked: list[tuple[str, str, Any]] = []

    def request(self, method: str, path: str, *, body: Any = None, deadline: object) -> Any:
        self.asked.append((method, path, body))
        if self.status:
            raise ApiError("refused", status=self.status, reason="", path=path)
        applied = [{"name": "watch-delay", "event": "watch pods ADDED web 1", "size": 0.2}]
        report = {"seed": 7, "level": "usual", "only": None, "applied": applied, "dropped": 3}
        return SimpleNamespace(data=json.dumps(report).encode())


def control_of(server: ExplorationServer) -> ExplorationControl:
    return ExplorationControl(lambda: cast("ApiSession", server), SERVER)


def test_an_exploration_is_started_and_reports_at_its_end() -> None:
    server = ExplorationServer()
    control = control_of(server)
    control.start(7, "usual")
    control.start(8, "harsh", ("work-order", "watch-delay@watch pods ADDED web 1"))
    assert control.end() == AppliedPerturbations(("watch-delay@watch pods ADDED web 1",), 3)
    only = ["work-order", "watch-delay@watch pods ADDED web 1"]
    assert server.asked == [
        ("PUT", PATH, {"seed": 7, "level": "usual", "only": None}),
        ("PUT", PATH, {"seed": 8, "level": "harsh", "only": only}),
        ("DELETE", PATH, None),
    ]


@pytest.mark.parametrize("status", [403, 404])
def test_another_cluster_cannot_be_explored(status: int) -> None:
    with pytest.raises(NotEmbeddedError) as caught:
        control_of(ExplorationServer(status)).start(7, "usual")
    assert str(caught.value) == (
        f"only an embedded cluster can be explored, by its administrators: {SERVER} refuses it "
        f"({status})"
    )


def test_other_errors_are_the_servers() -> None:
    with pytest.raises(ApiError, match="refused"):
        control_of(ExplorationServer(400)).start(7, "usual")
