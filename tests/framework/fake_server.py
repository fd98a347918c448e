"""A fake server that answers requests by path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from pytest_kwait.client.responses import Response
from pytest_kwait.errors import ApiError, InvalidArgument

if TYPE_CHECKING:
    import pytest

    from tests.engine.fake_session import FakeSession


class FakeServer:
    """Answers requests by their path: the same until it is changed."""

    def __init__(self, session: FakeSession, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: list[tuple[str, Any, Any]] = []
        self.discovered: set[str] = set()
        monkeypatch.setattr(session, "request", self.request)
        monkeypatch.setattr(session, "resolve", self.resolve)

    def request(
        self, method: str, path: str, *, query: Any = None, body: Any = None, **_: Any
    ) -> Response:
        self.asked.append((f"{method} {path}", query, body))
        answer = self.answers.get(path, ApiError("page not found", status=404))
        if isinstance(answer, Exception):
            raise answer
        data = answer if isinstance(answer, bytes) else msgspec.json.encode(answer)
        return Response(201, {}, data)

    def resolve(self, kind: str, api_version: str | None = None, **_: Any) -> Any:
        if kind not in self.discovered:
            raise InvalidArgument("kind", kind, "the server has no such kind")
        return kind
