"""Who a request is from, and whether they may do what they ask.

Source: k8s.io/apiserver pkg/authentication/token/tokenfile, pkg/endpoints/handlers/responsewriters.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from pytest_kwait.simulator.status_error import StatusError, forbidden, unauthorized

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kwait.simulator.caller import Caller
    from pytest_kwait.simulator.http.request import ApiRequest, Target
    from pytest_kwait.simulator.users import User

__all__ = ["ADMINS", "Credentials", "allowed", "authorize", "authorize_path"]

ADMINS = "system:masters"
_AUTHENTICATED = "system:authenticated"
_OPEN_PATHS = ("/healthz", "/livez", "/readyz", "/version")


class Credentials:
    """The bearer tokens that are known.

    Args:
        tokens: users by their token.
    """

    def __init__(self, tokens: Mapping[str, User]) -> None:
        self._tokens = {token.encode(): user for token, user in tokens.items()}

    def add(self, token: str, user: User) -> None:
        """Know a further token."""
        self._tokens[token.encode()] = user

    def user_of(self, token: str) -> User | None:
        """The token's user, None if it is unknown."""
        given = token.encode()
        for known, user in self._tokens.items():
            if hmac.compare_digest(known, given):
                return user
        return None

    def identify(self, request: ApiRequest) -> None:
        """Note in the request whom it is from.

        Raises:
            StatusError: 401 for a token that is not known.
        """
        header = request.header("Authorization")
        if not header:
            return
        scheme, _, token = header.partition(" ")
        user = self.user_of(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise unauthorized()
        request.caller.user = user.name
        request.caller.groups = (*user.groups, _AUTHENTICATED)
        as_user = request.header("Impersonate-User")
        if as_user:
            groups = tuple(request.http.headers.getall("Impersonate-Group", ()))
            request.caller.user = as_user
            request.caller.groups = (*groups, _AUTHENTICATED)


def allowed(caller: Caller) -> bool:
    """Whether the caller may do anything at all: there are administrators and others."""
    return ADMINS in caller.groups


def authorize_path(request: ApiRequest) -> None:
    """Let administrators see every path, others what is open to all.

    Raises:
        StatusError: 403.
    """
    caller, path = request.caller, request.path
    if allowed(caller) or path.startswith(_OPEN_PATHS):
        return
    if _AUTHENTICATED in caller.groups and path.startswith(("/api", "/openapi")):
        return
    verb = {"GET": "get", "POST": "post", "PUT": "put", "PATCH": "patch", "DELETE": "delete"}
    message = (
        f'forbidden: User "{caller.user}" cannot {verb.get(request.method, "get")} path "{path}"'
    )
    raise StatusError(403, "Forbidden", message, {})


def authorize(request: ApiRequest, target: Target, verb: str) -> None:
    """Let administrators do what they ask, and anyone ask what they may do.

    Raises:
        StatusError: 403 with the server's own text.
    """
    caller = request.caller
    if allowed(caller):
        return
    if (
        _AUTHENTICATED in caller.groups
        and target.resource.startswith("selfsubject")
        and verb == "create"
    ):
        return
    resource = target.resource + (f"/{target.subresource}" if target.subresource else "")
    where = (
        f' in the namespace "{target.namespace}"' if target.namespace else " at the cluster scope"
    )
    raise forbidden(
        target.group,
        target.resource,
        target.name,
        f'User "{caller.user}" cannot {verb} resource "{resource}" in API group '
        f'"{target.group}"{where}',
    )
