"""Waiting for a port of a pod: when it is tried, answers, refusals, pods that end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import pytest_kwait as kw
from pytest_kwait.client.resource import PODS
from pytest_kwait.errors import ApiError, InvalidArgument, WaitFailed, WaitTimeout
from pytest_kwait.wait.context import DeadlineExceeded
from tests.objects import pod

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from tests.engine.fake_session import FakeSession

REFUSED = "error forwarding port 5432: dial tcp4 127.0.0.1:5432: connect: connection refused"
NAMED = {
    "ports": [
        {"name": "metrics", "containerPort": 9187},
        {"name": "sql", "containerPort": 5432, "protocol": "TCP"},
        {"name": "gossip", "containerPort": 7946, "protocol": "UDP"},
    ]
}


class Ports:
    """Answers probes of ports by a script."""

    def __init__(self, session: FakeSession, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answer: str | Exception = REFUSED
        self.probes: list[tuple[float, int]] = []
        self._session = session
        monkeypatch.setattr(session, "probe_port", self.probe)

    def probe(self, namespace: str, name: str, port: int, **_: Any) -> str:
        assert (namespace, name) == ("ci-1", "db")
        self.probes.append((self._session.clock.monotonic(), port))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def open(self) -> None:
        self.answer = ""


@pytest.fixture
def ports(session: FakeSession, monkeypatch: pytest.MonkeyPatch) -> Ports:
    return Ports(session, monkeypatch)


def db(phase: str = "Running", **fields: Any) -> dict[str, Any]:
    return pod("db", phase, container={"name": "main", **NAMED}, **fields)


@pytest.mark.parametrize("mode", ["watch", "poll"])
def test_a_port_that_opens(
    client: ApiClient, session: FakeSession, ports: Ports, mode: Any
) -> None:
    session.put(PODS, db("Pending"))
    session.at(2, session.put, PODS, db())
    session.at(3.5, ports.open)

    found = kw.wait_for_pod_port(client, "ci-1", "pod/db", 5432, mode=mode, poll=1)

    assert found["metadata"]["name"] == "db"
    assert ports.probes == [(2.0, 5432), (3.0, 5432), (4.0, 5432)]


def test_a_change_of_the_pod_is_reason_to_try(
    client: ApiClient, session: FakeSession, ports: Ports
) -> None:
    session.put(PODS, db())
    session.at(3, ports.open)
    session.at(3, session.put, PODS, db(message="ready"))

    kw.wait_for_pod_port(client, "ci-1", "db", "sql", poll=60)

    assert ports.probes == [(0.0, 5432), (3.0, 5432)]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (REFUSED, "the connection is refused: nothing listens there yet"),
        ("no such network", "no connection: no such network"),
        (
            ApiError("dial tcp: i/o timeout", status=500, reason="InternalError"),
            "no connection: 500: dial tcp: i/o timeout",
        ),
        (
            ApiError("reset by peer", reason="ConnectionReset"),
            "no connection: ConnectionReset: reset by peer",
        ),
        (DeadlineExceeded("late"), "no connection within 10s"),
    ],
)
def test_a_port_that_does_not_open(
    client: ApiClient,
    session: FakeSession,
    ports: Ports,
    answer: str | Exception,
    reason: str,
) -> None:
    session.put(PODS, db())
    session.log_texts = {"db/main": ""}
    ports.answer = answer

    with pytest.raises(WaitTimeout) as caught:
        kw.wait_for_pod_port(client, "ci-1", "db", "sql", timeout="1m", poll="10s")

    assert caught.value.args == (f"pod ci-1/db did not answer on port sql within 1m0s: {reason}",)


CRASHING: dict[str, Any] = {
    "containerStatuses": [
        {
            "name": "main",
            "restartCount": 4,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 1}},
        }
    ]
}


@pytest.mark.parametrize(
    ("obj", "port", "after", "reason"),
    [
        (db("Succeeded"), 5432, 0.0, "the pod has succeeded"),
        (
            db(),
            "gossip",
            0.0,
            "the pod has no TCP port gossip, it has metrics, sql",
        ),
        (pod("db", "Running"), "sql", 0.0, "the pod has no TCP port sql, its ports have no names"),
        (
            db("Pending", waiting=("InvalidImageName", "no such name")),
            5432,
            5.0,
            "InvalidImageName: no such name",
        ),
        (
            db(**CRASHING),
            5432,
            45.0,
            "CrashLoopBackOff: container main was restarted 4 times, exit code 1",
        ),
        (
            db(metadata={"deletionTimestamp": "now"}),
            5432,
            5.0,
            "the pod is being deleted",
        ),
    ],
)
def test_a_port_that_will_not_open(
    client: ApiClient,
    session: FakeSession,
    ports: Ports,
    obj: Any,
    port: int | str,
    after: float,
    reason: str,
) -> None:
    session.put(PODS, obj)
    session.log_texts = {"db/main": "", "db/main previous": ""}

    with pytest.raises(WaitFailed) as caught:
        kw.wait_for_pod_port(client, "ci-1", "db", port)

    message = f"pod ci-1/db can no longer answer on port {port}: {reason}"
    assert caught.value.args == (message,)
    assert session.clock.monotonic() == after


def test_a_right_that_is_missing_ends_the_wait(
    client: ApiClient, session: FakeSession, ports: Ports
) -> None:
    session.put(PODS, db())
    ports.answer = ApiError("pods/portforward is forbidden", status=403, reason="Forbidden")

    with pytest.raises(ApiError, match="pods/portforward is forbidden"):
        kw.wait_for_pod_port(client, "ci-1", "db", 5432)


@pytest.mark.parametrize(
    ("port", "message"),
    [
        (0, "port=0 is not valid: use a number from 1 to 65535, or a port's name"),
        ("", "port='' is not valid: use a number from 1 to 65535, or a port's name"),
    ],
)
def test_refused_arguments(client: ApiClient, port: Any, message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        kw.wait_for_pod_port(client, "ci-1", "db", port)

    assert str(caught.value) == message
