"""A forbidden read fails every wait at once, in both modes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from pytest_kwait.client.discovery import match_resource
from pytest_kwait.client.resource import BUILT_IN, Resource
from pytest_kwait.errors import ApiError
from tests.engine.fake_session import FakeSession
from tests.framework.test_mangled_objects import LOOKS, calls

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.framework.registry import Wait

TEXT = 'User "robot" cannot {verb} resource "{resource}" in API group "" at the cluster scope'


class ForbiddingSession(FakeSession):
    """A session that knows the built-in kinds and refuses to read any."""

    def resolve(self, kind: str, api_version: str | None = None, **_: Any) -> Resource:
        found = match_resource(BUILT_IN.values(), kind, api_version)
        assert found is not None
        return found

    def list(self, resource: Resource, *_: Any, **__: Any) -> NoReturn:
        self._refuse("list", resource.plural)

    def get(self, resource: Resource, *_: Any, **__: Any) -> NoReturn:
        self._refuse("get", resource.plural)

    def request(self, method: str, path: str, **_: Any) -> NoReturn:
        self._refuse(method.lower(), path.split("/")[3] if path.count("/") > 2 else path)

    def create(self, resource: Resource, *_: Any, **__: Any) -> NoReturn:
        self._refuse("create", resource.plural)

    def _refuse(self, verb: str, resource: str) -> NoReturn:
        self.requests.append(f"{verb} {resource}")
        text = TEXT.format(verb=verb, resource=resource)
        raise ApiError(text, status=403, reason="Forbidden")


@pytest.mark.parametrize("mode", ["watch", "poll"])
@pytest.mark.parametrize("wait", LOOKS, ids=lambda wait: wait.name)
def test_forbidden_reads_end_a_wait_at_once(
    wait: Wait, mode: str, client: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for args, kwargs in calls(wait):
        session = ForbiddingSession()
        monkeypatch.setattr(client, "session", session)
        first = ("ci-1",) if wait.namespaced else ()

        with pytest.raises(ApiError) as caught:
            wait.function(client, *first, *args, **kwargs, timeout=60, mode=mode)

        # Whichever of several sources is refused first.
        refused = [TEXT.format(verb=v, resource=r) for v, r in map(str.split, session.requests)]
        assert caught.value.message in refused
        assert str(caught.value) == f"403 Forbidden: {caught.value.message}"
        assert session.clock.monotonic() == 0.0
        assert caught.value.__notes__[0].startswith("while waiting for ")
