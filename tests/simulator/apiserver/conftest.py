"""A server on loopback over a cluster without controllers."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
import urllib3
from prometheus_client.parser import text_string_to_metric_families

from pytest_kwait.simulator.aggregator.handler_proxy import proxy_request
from pytest_kwait.simulator.apiserver.filters import ADMINS, StaticTokens
from pytest_kwait.simulator.apiserver.http_server import HEADER_SECONDS
from pytest_kwait.simulator.apiserver.server import ApiServer
from pytest_kwait.simulator.cluster import SimulatedCluster
from pytest_kwait.simulator.request_info import User
from pytest_kwait.simulator.suspendable import SuspendableTasks

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Generator, Iterator

    from prometheus_client.core import Metric

ADMIN, POWERLESS = "admin-token", "powerless-token"
_LIMIT = 120.0
"""Seconds for an answer that comes at once, on a machine however busy."""


def read_metrics(body: bytes) -> list[Metric]:
    """Parse metrics as Prometheus does: values compare as numbers."""
    return [*text_string_to_metric_families(body.decode())]


class Served:
    """A server, its client and its cluster; only the server's thread may use the cluster."""

    def __init__(
        self, tls: ssl.SSLContext | None = None, header_seconds: float = HEADER_SECONDS
    ) -> None:
        self.api = SimulatedCluster()
        self.api.use_tasks(SuspendableTasks(self.api.has_webhooks))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        credentials = StaticTokens({ADMIN: User("admin", (ADMINS,)), POWERLESS: User("powerless")})
        self._server = ApiServer(self.api, credentials, proxy_request, header_seconds)
        self._thread.start()
        self.run(self._prepare)
        self.port = asyncio.run_coroutine_threadsafe(
            self._server.start("127.0.0.1", 0, tls), self._loop
        ).result(_LIMIT)
        self.pool = urllib3.PoolManager(retries=False)

    def _prepare(self) -> None:
        self.api.bootstrap()
        self.api.create("serviceaccounts", {"metadata": {"name": "default"}}, "default")

    def run(self, call: Callable[[], Any]) -> Any:
        """Call a function in the server's thread."""

        async def inside() -> Any:
            return call()

        return asyncio.run_coroutine_threadsafe(inside(), self._loop).result(_LIMIT)

    def advance(self, seconds: float) -> None:
        """Move the time of the server's loop on, once it has read what was sent."""
        self.run(lambda: None)
        time = self._loop.time
        self.run(lambda: setattr(self._loop, "time", lambda: time() + seconds))

    def send(
        self, method: str, path: str, body: object = None, token: str = ADMIN, **headers: str
    ) -> urllib3.BaseHTTPResponse:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            sent["Authorization"] = f"Bearer {token}"
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        url = f"http://127.0.0.1:{self.port}{path}"
        return self.pool.request(method, url, body=data, headers=sent, timeout=_LIMIT)

    def json(self, method: str, path: str, body: object = None, **headers: str) -> Any:
        return self.send(method, path, body, **headers).json()

    def watch(self, path: str, **headers: str) -> Generator[dict[str, Any], None, None]:
        url = f"http://127.0.0.1:{self.port}{path}"
        sent = {"Authorization": f"Bearer {ADMIN}", **headers}
        response = self.pool.request(
            "GET", url, headers=sent, timeout=_LIMIT, preload_content=False
        )
        try:
            rest = b""
            for chunk in response.stream(65536):
                *lines, rest = (rest + chunk).split(b"\n")
                yield from (json.loads(line) for line in lines)
        finally:
            response.close()

    async def _stop(self) -> None:
        """Stop the server, and end what it has begun: a client may just have gone."""
        await self._server.stop()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def close(self) -> None:
        self.pool.clear()
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(_LIMIT)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_LIMIT)
        self._loop.close()


@pytest.fixture
def served() -> Iterator[Served]:
    served = Served()
    try:
        yield served
    finally:
        served.close()
