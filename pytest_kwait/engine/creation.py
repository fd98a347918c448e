"""Creating an object once, though the answer may get lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.engine.retry import ErrorLog, request_with_retry
from pytest_kwait.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kwait.client.resource import Resource
    from pytest_kwait.client.session import Session
    from pytest_kwait.clock import Deadline

__all__ = ["create_once"]


def create_once(
    session: Session,
    resource: Resource,
    obj: Mapping[str, Any],
    namespace: str | None,
    deadline: Deadline,
) -> dict[str, Any]:
    """Create an object once: tried again like a read, and an answer that got lost is looked up.

    Raises:
        ApiError: refused, or the server could not be reached in time.
    """
    troubles = ErrorLog()
    try:
        return request_with_retry(
            lambda deadline: session.create(resource, obj, namespace, deadline=deadline),
            deadline,
            troubles,
        )
    except ApiError as error:
        name = obj["metadata"].get("name")
        if error.reason != "AlreadyExists" or troubles.count == 1 or not name:
            raise
    # An earlier try was answered by nothing: the object may well be the one that it made.
    return request_with_retry(
        lambda deadline: session.get(resource, name, namespace, deadline=deadline), deadline
    )
