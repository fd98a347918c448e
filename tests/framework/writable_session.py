"""A fake session that records writes and applies them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from pytest_kwait.client.discovery import match_resource
from pytest_kwait.client.resource import BUILT_IN
from tests.engine.fake_session import FakeSession

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.client.resource import Resource
    from pytest_kwait.errors import ApiError

Obj = dict[str, Any]


class WritingSession(FakeSession):
    """Notes what is written as `(verb, plural, name, what)`; `then` makes it come true."""

    transport: Any = None

    def __init__(self) -> None:
        super().__init__()
        self.written: list[tuple[str, str, str, Any]] = []
        self.then: Callable[[str, str, Any], object] = lambda verb, name, what: None
        self.scales: dict[str, Obj] = {}
        self._refusals: deque[ApiError] = deque()

    def refuse(self, *errors: ApiError) -> None:
        """Let the next writes fail."""
        self._refusals.extend(errors)

    def resolve(self, kind: str, api_version: str | None = None, **_: Any) -> Resource:
        found = match_resource(BUILT_IN.values(), kind, api_version)
        return found or self.custom[kind]

    def get(self, resource: Resource, name: str, namespace: str | None = None, **more: Any) -> Obj:
        if more.get("subresource") == "scale":
            self.requests.append(f"get {resource.plural}/scale {name}")
            return self.scales[name]
        return super().get(resource, name, namespace, **more)

    def patch(self, resource: Resource, name: str, patch: Any, *_: Any, **more: Any) -> Obj:
        part = more.get("subresource")
        return self._write("patch", resource, f"{name}/{part}" if part else name, patch)

    def create(self, resource: Resource, obj: Any, *_: Any, **__: Any) -> Obj:
        made: Obj = {**obj, "metadata": {"uid": "uid-made", **obj["metadata"]}}
        self._write("create", resource, obj["metadata"]["name"], obj)
        return made

    def delete(self, resource: Resource, name: str, *_: Any, **more: Any) -> Obj:
        more.pop("deadline")
        return self._write("delete", resource, name, more)

    def _write(self, verb: str, resource: Resource, name: str, what: Any) -> Obj:
        self.written.append((verb, resource.plural, name, what))
        if self._refusals:
            raise self._refusals.popleft()
        self.then(verb, name, what)
        return {}
