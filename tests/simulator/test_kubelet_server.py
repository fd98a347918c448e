from __future__ import annotations

import asyncio
import json
import ssl
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from pytest_kwait.simulator.cluster import SimulatedCluster
from pytest_kwait.simulator.kubelet_server import KubeletServer
from tests.certificates import write_certificates
from tests.objects import pod
from tests.simulator.apiserver.test_connect_subresources import Kubelet

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pytest_kwait.client.certificate_client import Credentials
    from pytest_kwait.simulator.authentication.pki import CertificateAuthority

Obj = dict[str, Any]
_STATUS: Obj = {
    "phase": "Running",
    "containerStatuses": [{"name": "c", "state": {"running": {}}}],
}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[CertificateAuthority, Credentials]:
    return write_certificates(tmp_path_factory.mktemp("credentials"))


def _run(
    authority: tuple[CertificateAuthority, Credentials],
    use: Callable[[aiohttp.ClientSession, str], Awaitable[None]],
    *,
    has_certificate: bool = True,
) -> SimulatedCluster:
    """Call `use` with a client and the URL of a listener for the node `n` and its pod `p`."""
    credentials = authority[1]

    async def run() -> SimulatedCluster:
        api = SimulatedCluster()
        api.bootstrap()
        api.create("serviceaccounts", {"metadata": {"name": "default"}}, "default")
        status: Obj = {"addresses": [{"type": "InternalIP", "address": "172.30.0.2"}]}
        node = api.create("nodes", {"metadata": {"name": "n"}})
        api.update_status("nodes", {**node, "status": status})
        made = api.create("pods", pod(nodeName="n", container={"name": "c"}), "default")
        api.update_status("pods", {**made, "status": _STATUS})
        kubelet = Kubelet()
        kubelet.start()
        api.kubelets["n"] = kubelet
        # The client's certificate serves here, too: its names are not what is tested.
        pair = (credentials.certificate, credentials.key)
        listener = KubeletServer(api, pair, credentials.authority)
        ports = listener.start()
        assert list(ports) == [("172.30.0.2", 10250)]
        host, port = ports["172.30.0.2", 10250]
        context = ssl.create_default_context(cafile=str(credentials.authority))
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if has_certificate:
            context.load_cert_chain(*pair)
        connector = aiohttp.TCPConnector(ssl=context)
        try:
            async with aiohttp.ClientSession(connector=connector) as session:
                await use(session, f"https://{host}:{port}")
        finally:
            listener.stop()
        return api

    return asyncio.run(run())


def test_nodes_list_their_pods_and_declare_websockets(
    authority: tuple[CertificateAuthority, Credentials],
) -> None:
    async def use(session: aiohttp.ClientSession, url: str) -> None:
        async with session.get(f"{url}/pods") as response:
            assert (await response.json())["kind"] == "PodList"
        async with session.get(f"{url}/healthz") as response:
            assert await response.text() == "ok"

    status = _run(authority, use).get("nodes", "n")["status"]
    assert status["addresses"] == [{"type": "InternalIP", "address": "172.30.0.2"}]
    assert status["declaredFeatures"] == ["ExtendWebSocketsToKubelet"]


def test_logs_have_the_options_of_the_api(
    authority: tuple[CertificateAuthority, Credentials],
) -> None:
    async def use(session: aiohttp.ClientSession, url: str) -> None:
        path = f"{url}/containerLogs/default/p/c"
        async with session.get(path) as response:
            assert await response.text() == "one\ntwo\nthree\n"
        async with session.get(path, params={"tailLines": "1"}) as response:
            assert await response.text() == "three\n"
            assert response.headers["Transfer-Encoding"] == "chunked"
        async with session.get(path, params={"follow": "true"}) as response:
            assert (await response.text()).endswith("three\n")

    _run(authority, use)


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("containerLogs/default/p/other", 400, "container other is not valid for pod p"),
        ("containerLogs/default/none/c", 404, 'pods "none" not found'),
        (
            "containerLogs/default/p/c?previous=true",
            400,
            'previous terminated container "c" in pod "p" not found',
        ),
        ("exec/default/p/c?command=ls&output=1", 400, "Upgrade request required"),
        ("containerLogs", 404, "404 page not found\n"),
        ("nothing", 404, "404 page not found\n"),
    ],
)
def test_refusals_are_plain_text(
    authority: tuple[CertificateAuthority, Credentials], path: str, status: int, text: str
) -> None:
    async def use(session: aiohttp.ClientSession, url: str) -> None:
        async with session.get(f"{url}/{path}") as response:
            assert (response.status, await response.text()) == (status, text)

    _run(authority, use)


def test_commands_run_by_the_kubelets_parameters(
    authority: tuple[CertificateAuthority, Credentials],
) -> None:
    async def use(session: aiohttp.ClientSession, url: str) -> None:
        path = f"{url}/exec/default/p/c?command=cat&input=1&output=1&error=1"
        async with session.ws_connect(path, protocols=("v5.channel.k8s.io",)) as socket:
            await socket.send_bytes(b"\x00typed\n")
            await socket.send_bytes(b"\xff\x00")
            received: dict[int, bytes] = {}
            async for message in socket:
                received[message.data[0]] = received.get(message.data[0], b"") + message.data[1:]
        assert received[1] == b"typed\n"
        assert json.loads(received[3])["status"] == "Success"

    _run(authority, use)


def test_ports_are_forwarded(authority: tuple[CertificateAuthority, Credentials]) -> None:
    async def use(session: aiohttp.ClientSession, url: str) -> None:
        path = f"{url}/portForward/default/p?port=7"
        async with session.ws_connect(path, protocols=("v4.channel.k8s.io",)) as socket:
            assert [(await socket.receive()).data for _ in range(2)] == [
                b"\x00\x07\x00",
                b"\x01\x07\x00",
            ]
            await socket.send_bytes(b"\x00ping")
            assert (await socket.receive()).data == b"\x00ping"

    _run(authority, use)


def test_clients_need_a_certificate(authority: tuple[CertificateAuthority, Credentials]) -> None:
    async def use(session: aiohttp.ClientSession, url: str) -> None:
        with pytest.raises(aiohttp.ClientError):
            async with session.get(f"{url}/containerLogs/default/p/c"):
                pass

    _run(authority, use, has_certificate=False)
