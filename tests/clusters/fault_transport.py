"""The faults of an embedded cluster, answered in memory."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from pytest_kwait.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVER = "https://127.0.0.1:6443"
HOLD = ("GET", "/kwait/v1/hold", None)


class FaultTransport:
    """Answers as an embedded cluster does, and remembers what it was asked."""

    def __init__(self, refusal: int = 0) -> None:
        self.asked: list[tuple[str, str, Any]] = []
        self.refusal = refusal
        self.open_holds = 0

    def guard(self, *_: object) -> SimpleNamespace:
        return SimpleNamespace(release=lambda: None)

    def open(self, path: str, **_: object) -> SimpleNamespace:
        self.asked.append(("GET", path, None))
        if self.refusal:
            raise ApiError("no", status=self.refusal, reason="", method="GET", path=path)
        self.open_holds += 1
        return SimpleNamespace(stream=self._lines, close=self._close)

    def _lines(self, _size: int) -> Iterator[bytes]:
        yield b'{"holder":"h1"}\n'

    def _close(self) -> None:
        self.open_holds -= 1

    def send(self, method: str, path: str, *, body: bytes | None, **_: object) -> SimpleNamespace:
        self.asked.append((method, path, None if body is None else json.loads(body)))
        if method == "DELETE" and self.refusal:
            raise ApiError("no", status=self.refusal, reason="", method=method, path=path)
        return SimpleNamespace(data=json.dumps({"id": f"f{len(self.asked)}", "hits": 7}).encode())
