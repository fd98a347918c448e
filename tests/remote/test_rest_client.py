from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_kwait.client.certificate_client import CertificateClient
from pytest_kwait.client.session import ApiSession
from pytest_kwait.remote.rest_client import RESTClient
from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.faults import FaultSelector, RequestFault

if TYPE_CHECKING:
    from pytest_kwait.client.certificate_client import Credentials
    from pytest_kwait.testing import FakeClock
    from tests.simulator.apiserver.conftest import Served

_MAPS = "/api/v1/namespaces/default/configmaps"


def _refuse(served: Served, times: int, status: int = 429) -> None:
    fault = RequestFault(FaultSelector(), status=status, retry_after=7, times=times)
    served.run(lambda: served.api.faults.requests.append(fault))


def test_requests_carry_bodies_and_return_answers(client: RESTClient, served: Served) -> None:
    made = client.request("POST", _MAPS, {"metadata": {"name": "a"}, "data": {"x": "1"}})
    assert made == served.run(lambda: served.api.get("configmaps", "a", "default"))
    listed = client.request("GET", _MAPS, query={"fieldSelector": "metadata.name=a"})
    assert [one["data"] for one in listed["items"]] == [{"x": "1"}]
    assert client.request("GET", "/readyz") == {}


def test_a_refusal_is_an_error_with_the_servers_words(client: RESTClient) -> None:
    with pytest.raises(StatusError, match='configmaps "none" not found') as caught:
        client.request("GET", f"{_MAPS}/none")
    assert (caught.value.code, caught.value.reason) == (404, "NotFound")
    assert caught.value.details == {"name": "none", "kind": "configmaps"}
    with pytest.raises(StatusError, match="404 page not found"):
        client.request("GET", "/nothing")


def test_a_busy_server_is_asked_again(client: RESTClient, served: Served, clock: FakeClock) -> None:
    _refuse(served, 2)
    assert client.request("GET", _MAPS)["kind"] == "ConfigMapList"
    assert clock.monotonic() == 10.0  # at most five seconds each
    _refuse(served, 100)
    with pytest.raises(StatusError, match="too many requests"):
        client.request("GET", _MAPS)


def test_a_server_that_is_gone_is_an_error(authority: tuple[object, Credentials]) -> None:
    program = CertificateClient("https://127.0.0.1:1", authority[1], "kwait-controllers")
    client = RESTClient(ApiSession(program))
    with pytest.raises(StatusError) as caught:
        client.request("GET", _MAPS)
    assert caught.value.message == "https://127.0.0.1:1: [Errno 111] Connection refused"
    assert (caught.value.code, caught.value.reason) == (503, "ServiceUnavailable")
