"""Objects that are named as `kind/name` for something to be done to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.client.discovery import match_resource
from pytest_kwait.client.resource import BUILT_IN
from pytest_kwait.engine.options import check_name
from pytest_kwait.engine.retry import request_with_retry
from pytest_kwait.engine.targets import parse_target
from pytest_kwait.errors import InvalidArgument

if TYPE_CHECKING:
    from pytest_kwait.client.resource import Resource
    from pytest_kwait.client.session import Session
    from pytest_kwait.clock import Deadline

__all__ = ["NamedTarget", "resolve_target"]


class NamedTarget(NamedTuple):
    """One object.

    Args:
        resource: its kind.
        name: its name.
    """

    resource: Resource
    name: str


def resolve_target(session: Session, target: object, deadline: Deadline) -> NamedTarget:
    """Return the object that `kind/name` means; only kinds that are not built in cost a request.

    Raises:
        ApiError: the server does not say what kinds it has.
        InvalidArgument: no `kind/name`, or an unknown kind; names near ones.
    """
    kind, name = parse_target("target", target)
    if not name:
        raise InvalidArgument("target", target, "use kind/name, for example 'deployment/web'")
    check_name("target", name)
    known = match_resource(BUILT_IN.values(), kind, None)
    if known is not None:
        return NamedTarget(known, name)
    return NamedTarget(
        request_with_retry(lambda left: session.resolve(kind, deadline=left), deadline), name
    )
