"""Users over TLS: by certificate, by token, and by impersonation."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import threading
from typing import TYPE_CHECKING, Any

import pytest
import urllib3

from pytest_kwait.simulator.aggregator.handler_proxy import proxy_request
from pytest_kwait.simulator.apiserver.filters import ADMINS, StaticTokens
from pytest_kwait.simulator.apiserver.server import ApiServer
from pytest_kwait.simulator.authentication.pki import CertificateAuthority
from pytest_kwait.simulator.cluster import SimulatedCluster
from pytest_kwait.simulator.request_info import User

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class Secured:
    """A server with TLS and its clients."""

    def __init__(self, folder: Path) -> None:
        self.authority = CertificateAuthority("127.0.0.1")
        self._folder = folder
        self._api = SimulatedCluster()
        self._server = ApiServer(
            self._api, StaticTokens({"t": User("jane", ("team",), "u1")}), proxy_request
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.port = self._run(self._start())

    async def _start(self) -> int:
        self._api.bootstrap()
        return await self._server.start("127.0.0.1", 0, self.authority.tls)

    def _run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)

    def who(self, certificate: tuple[str, str] | None = None, **headers: str) -> tuple[int, Any]:
        """Return the status and the user of a request with these credentials."""
        tls = ssl.create_default_context(cadata=self.authority.pem)
        if certificate is not None:
            chain = self._folder / "chain.pem"
            chain.write_text("".join(certificate))
            tls.load_cert_chain(chain)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        with urllib3.PoolManager(ssl_context=tls, retries=False, timeout=60) as pool:
            url = f"https://127.0.0.1:{self.port}{WHO}"
            answer = pool.request("POST", url, body=b"{}", headers=sent)
        body = json.loads(answer.data)
        return answer.status, body["status"]["userInfo"] if answer.status == 201 else body

    def get(self, path: str) -> tuple[int, Any]:
        """Return the status and the body of jane's request."""
        tls = ssl.create_default_context(cadata=self.authority.pem)
        with urllib3.PoolManager(ssl_context=tls, retries=False, timeout=60) as pool:
            url = f"https://127.0.0.1:{self.port}{path}"
            answer = pool.request("GET", url, headers={"Authorization": "Bearer t"})
        return answer.status, json.loads(answer.data)

    def create(self, kind: str, obj: dict[str, Any]) -> None:
        """Create an object directly in the cluster."""

        async def create() -> None:
            self._api.create(f"{kind}.rbac.authorization.k8s.io", obj, "default")

        self._run(create())

    def close(self) -> None:
        self._run(self._server.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Secured]:
    with contextlib.closing(Secured(tmp_path)) as secured:
        yield secured


def test_client_certificate_authenticates_its_user(secured: Secured) -> None:
    """The common name is the user, organizations are groups; a token is ignored."""
    now = secured._api.clock.time()
    certificate = secured.authority.client_certificate(User("ops", ("a", ADMINS)), now)
    status, user = secured.who(certificate, Authorization="Bearer wrong")
    assert status == 201
    seen = user.pop("extra")["authentication.kubernetes.io/credential-id"]
    assert [len(text) for text in seen] == [len("X509SHA256=") + 64]
    assert user == {"username": "ops", "groups": ["a", ADMINS, "system:authenticated"]}
    _, acted = secured.who(certificate, Impersonate_User="jane")
    assert acted == {"username": "jane", "groups": ["system:authenticated"]}


def test_client_certificate_of_another_ca_or_time_is_ignored(secured: Secured) -> None:
    now = secured._api.clock.time()
    other = CertificateAuthority("127.0.0.1").client_certificate(User("ops", (ADMINS,)), now)
    with pytest.raises((urllib3.exceptions.HTTPError, OSError)):
        secured.who(other)
    expired = secured.authority.client_certificate(User("ops"), now - 400 * 24 * 3600)
    with pytest.raises((urllib3.exceptions.HTTPError, OSError)):
        secured.who(expired)


def test_token_authenticates_its_user(secured: Secured) -> None:
    user = {"username": "jane", "uid": "u1", "groups": ["team", "system:authenticated"]}
    assert secured.who(Authorization="Bearer t") == (201, user)
    assert secured.who(Authorization="bearer  t ") == (201, user)
    assert secured.who(Authorization="Bearer x")[0] == 401
    assert secured.who(Authorization="Basic t")[0] == 403
    assert secured.who()[0] == 403
    assert secured.who(Authorization="Bearer t", Impersonate_User="joe")[0] == 403


def test_stream_opened_by_get_requires_create(secured: Secured) -> None:
    """Otherwise read permission would allow commands."""
    rule = {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get"]}
    role = {"metadata": {"name": "r"}, "rules": [rule]}
    binding = {
        "metadata": {"name": "b"},
        "roleRef": {"kind": "Role", "name": "r"},
        "subjects": [{"kind": "User", "name": "jane"}],
    }
    secured.create("roles", role)
    path = "/api/v1/namespaces/default/pods/p/exec"
    status, body = secured.get(path)
    assert (status, body["message"]) == (
        403,
        'pods "p" is forbidden: User "jane" cannot get resource "pods/exec" in API group "" in '
        'the namespace "default"',
    )
    secured.create("rolebindings", binding)
    assert secured.get(path) == (
        403,
        {**body, "message": 'pods "p" is forbidden: '},
    )
    rule["verbs"] = ["get", "create"]
    secured.create("roles", {**role, "metadata": {"name": "more"}, "rules": [rule]})
    reference = {"kind": "Role", "name": "more"}
    secured.create("rolebindings", {**binding, "metadata": {"name": "c"}, "roleRef": reference})
    assert secured.get(path)[1]["message"] == 'pods "p" not found'
