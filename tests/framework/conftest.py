from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.session import ApiSession
from tests.client.session_client import SessionClient
from tests.engine.fake_session import FakeSession

if TYPE_CHECKING:
    from kubernetes.client import ApiClient


@pytest.fixture
def session() -> FakeSession:
    return FakeSession()


@pytest.fixture
def client(session: FakeSession, monkeypatch: pytest.MonkeyPatch) -> ApiClient:
    def session_of(client: Any) -> Any:
        return client.session

    monkeypatch.setattr(ApiSession, "of", staticmethod(session_of))
    return SessionClient(session)  # type: ignore[return-value]  # see its docstring
