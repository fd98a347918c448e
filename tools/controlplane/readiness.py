"""Readiness checks of a new cluster."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

from tools.controlplane.errors import BrokenError
from tools.controlplane.polling import poll_until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tools.controlplane.servers import ControlPlane

_PAUSE = 0.1


class Readiness:
    """Polls the API server until it is in a state."""

    def __init__(self, plane: ControlPlane, alive: Callable[[], None]) -> None:
        self._server = plane.server
        self._alive = alive
        self._tls = ssl.create_default_context(cafile=plane.ca)
        self._tls.load_cert_chain(plane.admin.certificate, plane.admin.key)

    def server(self, patience: float = 60) -> None:
        """Wait until the API server is ready."""
        self._until("/readyz", lambda answer: answer == b"ok", patience)

    def defaults(self, patience: float = 60) -> None:
        """Wait until the controllers have created what a pod in "default" needs."""
        namespace = "/api/v1/namespaces/default"
        for path in ("serviceaccounts/default", "configmaps/kube-root-ca.crt"):
            self._until(f"{namespace}/{path}", lambda _: True, patience)

    def nodes(self, names: Sequence[str], patience: float = 120) -> None:
        """Wait until the nodes are ready and schedulable."""
        for name in names:
            self._until(f"/api/v1/nodes/{name}", _usable, patience)

    def create(self, path: str, body: dict[str, object]) -> None:
        """Create an object."""
        data = json.dumps(body).encode()
        request = urllib.request.Request(
            self._server + path, data, {"Content-Type": "application/json"}
        )
        ok, answer = self._request(request)
        if not ok:
            raise BrokenError(f"{path} answered\n{answer.decode(errors='replace')[-2000:]}")

    def _until(self, path: str, satisfied: Callable[[bytes], bool], patience: float) -> None:
        answer = b""

        def poll() -> bool:
            nonlocal answer
            self._alive()
            ok, answer = self._request(self._server + path)
            return ok and satisfied(answer)

        if not poll_until(poll, patience, _PAUSE):
            last = answer.decode(errors="replace")[-2000:]
            raise BrokenError(f"not ready after {patience:.0f} s: {path} last answered\n{last}")

    def _request(self, url: str | urllib.request.Request) -> tuple[bool, bytes]:
        try:
            with urllib.request.urlopen(url, context=self._tls, timeout=10) as response:
                return True, response.read()
        except urllib.error.HTTPError as refused:
            with refused:
                return False, refused.read()
        except OSError as error:
            return False, str(error).encode()


def _usable(answer: bytes) -> bool:
    node: dict[str, Any] = json.loads(answer)
    conditions = {each["type"]: each["status"] for each in node["status"].get("conditions", [])}
    return conditions.get("Ready") == "True" and not node["spec"].get("taints")
