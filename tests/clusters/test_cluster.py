from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.impersonation import Impersonation
from pytest_kwait.client.responses import Response
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clusters.cluster import Cluster
from pytest_kwait.clusters.kubeconfig import read_kubeconfig
from pytest_kwait.errors import ApiError, ClusterError
from pytest_kwait.testing import FakeClock
from pytest_kwait.wait import DeadlineExceeded
from tests.clusters.kubeconfigs import contents, written

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait.clock import Deadline


class PathAnswers:
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
        self.headers: dict[str, str] = {}

    def request(self, method: str, path: str, *, deadline: Deadline, **_arguments: Any) -> Response:
        self.asked.append(f"{method} {path}")
        self.limits.append(deadline.remaining)
        answer = self.answers[path]
        if isinstance(answer, Exception):
            raise answer
        return Response(200, self.headers, answer)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> PathAnswers:
    server = PathAnswers()

    def request(session: ApiSession, method: str, path: str, **arguments: Any) -> Response:
        answer = server.request(method, path, **arguments)
        session.record_headers(answer.headers)
        return answer

    monkeypatch.setattr(ApiSession, "request", request)
    return server


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path / "config", contents("east", "west"))


def connected(file: Path, context: str | None = None) -> Cluster:
    target = read_kubeconfig(file).target(context)
    return Cluster(target, provider="existing", clock=FakeClock())


def test_properties_of_a_cluster(file: Path) -> None:
    cluster = connected(file)
    assert (cluster.provider, cluster.kubeconfig, cluster.time_scale) == ("existing", file, 1.0)
    assert (cluster.context, cluster.server) == (None, "https://east.example:6443")
    assert connected(file, "west").context == "west"


def test_clients_of_a_kubeconfig_that_names_another_user_act_as_it(tmp_path: Path) -> None:
    content = contents("east")
    content["users"][0]["user"] |= {"as": "jane", "as-groups": ["devs"]}
    session = ApiSession.of(connected(written(tmp_path / "config", content)).client())
    assert session.transport.further_headers == Impersonation("jane", ("devs",)).headers()


def test_what_administrators_may_is_requested_by_them(file: Path, server: PathAnswers) -> None:
    cluster = connected(file)
    cluster.is_monitored = True
    cluster.artifacts = "artifacts"
    other = cluster.as_other_user(read_kubeconfig(file).target("west"))
    assert (other.kubeconfig, other.context, other.provider) == (file, "west", "existing")
    assert (other.is_monitored, other.artifacts) == (True, "artifacts")
    assert other._session is cluster._session
    assert ApiSession.of(other.client()) is not cluster._session


def test_check_sends_two_requests_and_caches_the_version(file: Path, server: PathAnswers) -> None:
    cluster = connected(file)
    cluster.check()
    assert server.asked == ["GET /api", "GET /version"]
    assert server.limits == [30.0, 30.0]
    assert cluster.version == "v1.36.2"
    assert len(server.asked) == 2


@pytest.mark.parametrize(("headers", "scale"), [({"Kwait-Time-Scale": "0.1"}, 0.1), ({}, 1.0)])
def test_timing_of_a_cluster_by_kwait_up_sets_graces(
    file: Path, server: PathAnswers, headers: dict[str, str], scale: float
) -> None:
    server.headers = headers
    cluster = connected(file)
    cluster.check()
    assert cluster.time_scale == scale
    assert ApiSession.of(cluster.client()).time_scale == scale


@pytest.mark.parametrize(
    ("headers", "has_controllers"), [({"Kwait-Controllers": "none"}, False), ({}, True)]
)
def test_api_server_alone_of_kwait_up_is_known_to_have_no_controllers(
    file: Path, server: PathAnswers, headers: dict[str, str], has_controllers: bool
) -> None:
    server.headers = headers
    cluster = connected(file)
    cluster.check()
    assert cluster.has_controllers is has_controllers


def test_version_and_nodes_are_requested_once_on_use(file: Path, server: PathAnswers) -> None:
    cluster = connected(file)
    assert server.asked == []
    assert (cluster.version, cluster.version) == ("v1.36.2", "v1.36.2")
    assert (cluster.nodes, cluster.nodes) == (("a", "b"), ("a", "b"))
    assert server.asked == ["GET /version", "GET /api/v1/nodes"]


@pytest.mark.parametrize("refusal", ["", "programs are plain processes"])
def test_refusal_of_isolation_is_requested_once(
    file: Path, server: PathAnswers, refusal: str
) -> None:
    server.answers["/kwait/v1/isolation/refusal"] = json.dumps({"refusal": refusal}).encode()
    cluster = connected(file)
    assert [cluster.find_isolation_refusal() for _ in range(2)] == [refusal] * 2
    assert server.asked == ["GET /kwait/v1/isolation/refusal"]


def test_refusal_of_isolation_has_the_part_that_programs_lack(
    file: Path, server: PathAnswers
) -> None:
    answer = {"refusal": "", "lacking": {"users": "one user", "storage": "no limit"}}
    server.answers["/kwait/v1/isolation/refusal"] = json.dumps(answer).encode()
    cluster = connected(file)
    assert cluster.find_isolation_refusal() == ""
    assert cluster.find_isolation_refusal("processes") == ""
    assert cluster.find_isolation_refusal("processes", "users") == "one user"


@pytest.mark.parametrize("status", [403, 404, 405])
def test_other_clusters_isolate_programs(file: Path, server: PathAnswers, status: int) -> None:
    server.answers["/kwait/v1/isolation/refusal"] = ApiError("no such path", status=status)
    assert connected(file).find_isolation_refusal("users") == ""


def test_failed_request_for_the_refusal_of_isolation_is_an_error(
    file: Path, server: PathAnswers
) -> None:
    server.answers["/kwait/v1/isolation/refusal"] = ApiError("storage is gone", status=500)
    with pytest.raises(ApiError, match="storage is gone"):
        connected(file).find_isolation_refusal()


def test_stop_leaves_the_cluster_running(file: Path, server: PathAnswers) -> None:
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
def test_rejected_credentials_are_one_message(
    file: Path, server: PathAnswers, error: Exception, message: str
) -> None:
    server.answers["/api"] = error
    with pytest.raises(ClusterError) as caught:
        connected(file, "west").check()
    assert str(caught.value) == message.format(
        start=f"server https://west.example:6443 of context 'west' in kubeconfig {file}",
        kubectl=f"kubectl --kubeconfig {file} --context west",
    )
    assert caught.value.__cause__ is error


def test_missing_user_is_named(file: Path, server: PathAnswers) -> None:
    content = contents("a") | {"contexts": [{"name": "a", "context": {"cluster": "a"}}]}
    server.answers["/api"] = ApiError("no", status=401)
    with pytest.raises(ClusterError, match=r"does not know a client without a user \(401"):
        connected(written(file, content)).check()


def test_client_has_the_kubectl_command(file: Path) -> None:
    cluster = connected(file, "west")
    client = cluster.client()
    assert client.configuration.host == "https://west.example:6443"
    assert client.configuration.get_api_key_with_prefix("BearerToken") == "Bearer token-of-west"
    assert ApiSession.of(client).kubectl_args == ("--kubeconfig", str(file), "--context", "west")
    assert cluster.client() is not client


def test_a_token_file_is_read_again_for_every_request(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    content = contents("a") | {"users": [{"name": "a", "user": {"tokenFile": "token"}}]}
    client = connected(written(tmp_path / "config", content)).client()
    assert client.configuration.auth_settings()["BearerToken"]["value"] == "Bearer first"
    token.write_text("second\n")
    assert client.configuration.auth_settings()["BearerToken"]["value"] == "Bearer second"


def _count_loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    from kubernetes import config

    loads: list[str] = []
    load = config.load_kube_config

    def load_kube_config(file: str, **arguments: Any) -> None:
        loads.append(file)
        load(file, **arguments)  # type: ignore[no-untyped-call] # the client has no types here

    monkeypatch.setattr(config, "load_kube_config", load_kube_config)
    return loads


def test_a_kubeconfig_is_parsed_once_while_it_is_unchanged(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads = _count_loads(monkeypatch)
    cluster = connected(file)
    first, second = cluster.client(), cluster.client()
    assert len(loads) == 1
    first.configuration.host = "https://elsewhere.example"
    third = cluster.client()
    for client in (second, third):
        assert client.configuration.host == "https://east.example:6443"
        assert client.configuration.get_api_key_with_prefix("BearerToken") == "Bearer token-of-east"
    file.write_text(file.read_text().replace("token-of-east", "a-new-token"))
    changed = cluster.client()
    assert len(loads) == 2
    assert changed.configuration.get_api_key_with_prefix("BearerToken") == "Bearer a-new-token"


def test_credentials_of_a_program_are_asked_for_by_each_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads = _count_loads(monkeypatch)
    answer = (
        '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", '
        '"status": {"token": "of-a-program"}}'
    )
    program = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": ["-c", f"print({answer!r})"],
        "interactiveMode": "Never",
    }
    content = contents("a") | {"users": [{"name": "a", "user": {"exec": program}}]}
    cluster = connected(written(tmp_path / "config", content))
    for _ in range(2):
        client = cluster.client()
        assert client.configuration.get_api_key_with_prefix("BearerToken") == "Bearer of-a-program"
    assert len(loads) == 2


@pytest.mark.parametrize(
    ("host", "proxy"),
    [
        ("localhost", None),
        ("127.0.0.1", None),
        ("[::1]", None),
        ("cluster.example", "http://proxy.example:3128"),
    ],
)
def test_loopback_bypasses_proxies(
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


def test_kubernetes_is_imported_with_the_first_client() -> None:
    import subprocess

    code = (
        "import sys, pytest_kwait.clusters.provider as c; c.choose_provider('embedded'); "
        "print([m for m in ('kubernetes', 'urllib3', 'msgspec', 'aiohttp') if m in sys.modules])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stdout == "[]\n"
