"""Locks whose client is a store in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.session import ApiSession
from tests.client.session_client import SessionClient

if TYPE_CHECKING:
    from tests.leaderelection.lease_store import StoreSession


@pytest.fixture(autouse=True)
def _store_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    session_of = ApiSession.of

    def session_or_store(client: Any) -> ApiSession | StoreSession:
        return client.session if isinstance(client, SessionClient) else session_of(client)

    monkeypatch.setattr(ApiSession, "of", staticmethod(session_or_store))
