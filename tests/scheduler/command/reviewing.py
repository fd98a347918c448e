"""A server that reviews tokens and access, without one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pytest_kwait.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.client.session import ApiSession


class Reviewer:
    """Answers each review by `judge`, and records it."""

    clock = SYSTEM_CLOCK

    def __init__(self, judge: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self.asked: list[dict[str, Any]] = []
        self._judge = judge

    def create(self, _resource: object, body: dict[str, Any], **_options: object) -> dict[str, Any]:
        self.asked.append(body["spec"])
        return {"status": self._judge(body["spec"])}

    @property
    def session(self) -> ApiSession:
        return cast("ApiSession", self)
