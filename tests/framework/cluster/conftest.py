from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.framework.fake_server import FakeServer

if TYPE_CHECKING:
    from tests.engine.fake_session import FakeSession


@pytest.fixture
def server(session: FakeSession, monkeypatch: pytest.MonkeyPatch) -> FakeServer:
    return FakeServer(session, monkeypatch)
