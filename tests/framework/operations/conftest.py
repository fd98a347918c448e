from __future__ import annotations

import pytest

from tests.framework.writable_session import WritingSession


@pytest.fixture
def session() -> WritingSession:
    return WritingSession()
