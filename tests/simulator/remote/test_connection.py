from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.faults import FaultSelector, RequestFault
from pytest_kwait.simulator.remote.connection import Connection

if TYPE_CHECKING:
    from pytest_kwait.simulator.remote.connection import Credentials
    from pytest_kwait.testing import FakeClock
    from tests.simulator.apiserver.conftest import Served

_MAPS = "/api/v1/namespaces/default/configmaps"


def _refuse(served: Served, times: int, status: int = 429) -> None:
    fault = RequestFault(FaultSelector(), status=status, retry_after=7, times=times)
    served.run(lambda: served.api.faults.requests.append(fault))


def test_requests_carry_bodies_and_return_answers(connection: Connection, served: Served) -> None:
    made = connection.request("POST", _MAPS, {"metadata": {"name": "a"}, "data": {"x": "1"}})
    assert made == served.run(lambda: served.api.get("configmaps", "a", "default"))
    listed = connection.request("GET", _MAPS, query={"fieldSelector": "metadata.name=a"})
    assert [one["data"] for one in listed["items"]] == [{"x": "1"}]
    assert connection.request("GET", "/readyz") == {}


def test_a_refusal_is_an_error_with_the_servers_words(connection: Connection) -> None:
    with pytest.raises(StatusError, match='configmaps "none" not found') as caught:
        connection.request("GET", f"{_MAPS}/none")
    assert (caught.value.code, caught.value.reason) == (404, "NotFound")
    assert caught.value.details == {"name": "none", "kind": "configmaps"}
    with pytest.raises(StatusError, match="404 page not found"):
        connection.request("GET", "/nothing")


def test_a_busy_server_is_asked_again(
    connection: Connection, served: Served, clock: FakeClock
) -> None:
    _refuse(served, 2)
    assert connection.request("GET", _MAPS)["kind"] == "ConfigMapList"
    assert clock.monotonic() == 10.0  # at most five seconds each
    _refuse(served, 100)
    with pytest.raises(StatusError, match="too many requests"):
        connection.request("GET", _MAPS)


def test_a_server_that_is_gone_is_an_error(
    authority: tuple[object, Credentials],
) -> None:
    connection = Connection("https://127.0.0.1:1", authority[1])
    with pytest.raises(StatusError) as caught:
        connection.request("GET", _MAPS)
    assert caught.value.message == (
        "https://127.0.0.1:1 does not answer: ConnectionRefusedError(111, 'Connection refused')"
    )
    assert (caught.value.code, caught.value.reason) == (503, "ServiceUnavailable")


def test_an_idle_connection_is_opened_anew(connection: Connection, clock: FakeClock) -> None:
    connection.request("GET", _MAPS)
    first = connection._http
    connection.request("GET", _MAPS)
    assert connection._http is first
    clock.sleep(31)
    connection.request("GET", _MAPS)
    assert connection._http is not first


def test_a_watch_yields_events_until_it_is_over(connection: Connection, served: Served) -> None:
    async def watch() -> list[str]:
        query = {"resourceVersion": str(revision), "timeoutSeconds": "1"}
        events = [event async for event in connection.watch(_MAPS, query)]
        await connection.close()
        return [event["object"]["metadata"]["name"] for event in events]

    revision = served.api.store.revision
    for name in ("a", "b"):
        connection.request("POST", _MAPS, {"metadata": {"name": name}, "data": {"x": "y" * 90000}})
    assert asyncio.run(watch()) == ["a", "b"]


def test_a_refused_watch_is_an_error(connection: Connection) -> None:
    async def watch() -> None:
        try:
            async for _ in connection.watch(_MAPS, {"resourceVersion": "x"}):
                pass
        finally:
            await connection.close()

    with pytest.raises(StatusError, match='Invalid value: "x"') as caught:
        asyncio.run(watch())
    assert caught.value.code == 500
