from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.responses import Response
from pytest_kwait.client.session import Session
from pytest_kwait.clusters.connected_cluster import ConnectedCluster
from pytest_kwait.clusters.kubeconfig import read_kubeconfig
from pytest_kwait.errors import ApiError, ClusterError
from pytest_kwait.testing import FakeClock
from pytest_kwait.wait import DeadlineExceeded
from tests.clusters.kubeconfigs import contents, written

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait.clock import Deadline


class Server:
    """Answers in place of the network."""

    def __init__(self) -> None:
        self.answers: dict[str, bytes | Exception] = {
            "/api": b'{"kind": "APIVersions"}',
            "/version": b'{"gitVersion": "v1.36.2"}',
            "/api/v1/nodes": b'{"metadata": {}, "items": [{"metadata": {"name": "b"}}, '
            b'{"metadata": {"name": "a"}}]}',
        }
        self.asked: list[str] = []
        self.limits: list[float] = []

    def request(self, method: str, path: str, *, deadline: Deadline, **_arguments: Any) -> Response:
        self.asked.append(f"{method} {path}")
        self.limits.append(deadline.remaining)
        answer = self.answers[path]
        if isinstance(answer, Exception):
            raise answer
        return Response(200, {}, answer)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    server = Server()

    def request(_session: Session, method: str, path: str, **arguments: Any) -> Response:
        return server.request(method, path, **arguments)

    monkeypatch.setattr(Session, "request", request)
    return server


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path / "config", contents("east", "west"))


def connected(file: Path, context: str | None = None) -> ConnectedCluster:
    target = read_kubeconfig(file).target(context)
    return ConnectedCluster(target, provider="existing", clock=FakeClock())


def test_a_cluster_says_what_it_is(file: Path) -> None:
    cluster = connected(file)
    assert (cluster.provider, cluster.kubeconfig, cluster.time_scale) == ("existing", file, 1.0)
    assert (cluster.context, cluster.server) == (None, "https://east.example:6443")
    assert connected(file, "west").context == "west"


def test_checking_asks_twice_in_our_name_and_remembers_the_version(
    file: Path, server: Server
) -> None:
    cluster = connected(file)
    cluster.check()
    assert server.asked == ["GET /api", "GET /version"]
    assert server.limits == [30.0, 30.0]
    assert cluster.version == "v1.36.2"
    assert len(server.asked) == 2


def test_version_and_nodes_are_asked_for_once_and_late(file: Path, server: Server) -> None:
    cluster = connected(file)
    assert server.asked == []
    assert (cluster.version, cluster.version) == ("v1.36.2", "v1.36.2")
    assert (cluster.nodes, cluster.nodes) == (("a", "b"), ("a", "b"))
    assert server.asked == ["GET /version", "GET /api/v1/nodes"]


def test_stopping_stops_nothing(file: Path, server: Server) -> None:
    connected(file).stop()
    assert server.asked == []
    assert file.exists()


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            ApiError("[Errno 111] Connection refused", reason="ConnectionRefused"),
            "{start} cannot be reached: ConnectionRefused: [Errno 111] Connection refused; is it "
            "running, and is this the context you mean? To look: {kubectl} version",
        ),
        (
            DeadlineExceeded("GET /api: no complete answer within 30s"),
            "{start} cannot be reached: Timeout: no answer within 30s; is it "
            "running, and is this the context you mean? To look: {kubectl} version",
        ),
        (
            ApiError("certificate verify failed", reason="TLS"),
            "{start} and we do not trust each other (TLS: certificate verify failed); look at the "
            "certificates of the cluster and of user 'west': they are not the server's, broken, "
            "or out of date",
        ),
        (
            ApiError("Unauthorized", status=401, reason="Unauthorized"),
            "{start} does not know user 'west' (401 Unauthorized): the credentials are wrong or "
            "have expired; renew them until this works: {kubectl} get --raw /api",
        ),
        (
            ApiError('forbidden: User "west" cannot get path "/api"', status=403),
            "{start} does not let user 'west' in (403 Forbidden: forbidden: User \"west\" cannot "
            'get path "/api"); give it the cluster role system:discovery, or credentials that have '
            "it",
        ),
        (
            ApiError("Not Found", status=404, method="GET", path="/api"),
            "{start} does not answer as an API server does: GET /api: 404: Not Found",
        ),
    ],
)
def test_a_server_that_does_not_let_us_in_is_one_clear_message(
    file: Path, server: Server, error: Exception, message: str
) -> None:
    server.answers["/api"] = error
    with pytest.raises(ClusterError) as caught:
        connected(file, "west").check()
    assert str(caught.value) == message.format(
        start=f"server https://west.example:6443 of context 'west' in kubeconfig {file}",
        kubectl=f"kubectl --kubeconfig {file} --context west",
    )
    assert caught.value.__cause__ is error


def test_a_context_without_user_is_said_to_have_none(file: Path, server: Server) -> None:
    content = contents("a") | {"contexts": [{"name": "a", "context": {"cluster": "a"}}]}
    server.answers["/api"] = ApiError("no", status=401)
    with pytest.raises(ClusterError, match=r"does not know a client without a user \(401"):
        connected(written(file, content)).check()


def test_a_client_reaches_the_context_and_knows_how_kubectl_would(file: Path) -> None:
    cluster = connected(file, "west")
    client = cluster.client()
    assert client.configuration.host == "https://west.example:6443"
    assert client.configuration.get_api_key_with_prefix("BearerToken") == "Bearer token-of-west"
    assert Session.of(client).kubectl_args == ("--kubeconfig", str(file), "--context", "west")
    assert cluster.client() is not client


def test_a_token_file_is_read_again_for_every_request(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    content = contents("a") | {"users": [{"name": "a", "user": {"tokenFile": "token"}}]}
    client = connected(written(tmp_path / "config", content)).client()
    assert client.configuration.auth_settings()["BearerToken"]["value"] == "Bearer first"
    token.write_text("second\n")
    assert client.configuration.auth_settings()["BearerToken"]["value"] == "Bearer second"


@pytest.mark.parametrize(
    ("host", "proxy"),
    [
        ("localhost", None),
        ("127.0.0.1", None),
        ("[::1]", None),
        ("cluster.example", "http://proxy.example:3128"),
    ],
)
def test_no_proxy_is_asked_for_the_way_to_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, proxy: str | None
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    content = contents("a")
    content["clusters"][0]["cluster"]["server"] = f"https://{host}:6443"
    client = connected(written(tmp_path / "config", content)).client()
    assert client.configuration.proxy == proxy


def test_credentials_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    user = {"client-certificate": "me.crt", "client-key": "me.key"}
    file = written(tmp_path / "config", contents("a") | {"users": [{"name": "a", "user": user}]})
    with pytest.raises(ClusterError) as caught:
        connected(file).client()
    assert str(caught.value) == (
        f"user 'a' of context 'a' in kubeconfig {file} cannot be used: "
        f"File does not exist: {tmp_path}/me.crt"
    )


def test_nothing_costly_is_imported_before_a_client_is_asked_for() -> None:
    import subprocess

    code = (
        "import sys, pytest_kwait.clusters.provider as c; c.choose_provider('embedded'); "
        "print([m for m in ('kubernetes', 'urllib3', 'msgspec', 'aiohttp') if m in sys.modules])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stdout == "[]\n"
