from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.session import ApiSession
from tests.engine.fake_session import FakeSession

if TYPE_CHECKING:
    from kubernetes.client import ApiClient


class FakeClient:
    """Stands for an `ApiClient`; all that the waits do with one is ask for its session."""

    def __init__(self, session: FakeSession) -> None:
        self.session = session


@pytest.fixture
def session() -> FakeSession:
    return FakeSession()


@pytest.fixture
def client(session: FakeSession, monkeypatch: pytest.MonkeyPatch) -> ApiClient:
    def session_of(client: Any) -> Any:
        return client.session

    monkeypatch.setattr(ApiSession, "of", staticmethod(session_of))
    return FakeClient(session)  # type: ignore[return-value]  # see its docstring
