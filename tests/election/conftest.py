"""Locks whose client is a store in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.api.session import Session

if TYPE_CHECKING:
    from tests.election.lease_store import StoreSession


@pytest.fixture(autouse=True)
def _store_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    def session_of(client: Any) -> StoreSession:
        session: StoreSession = client.session
        return session

    monkeypatch.setattr(Session, "of", staticmethod(session_of))
