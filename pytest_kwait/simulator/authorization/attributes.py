"""The attributes of a request that an authorizer decides on: user, verb, resource or path.

Source: k8s.io/apiserver pkg/authorization/authorizer/interfaces.go,
pkg/endpoints/handlers/responsewriters/errors.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.simulator.api_errors import StatusError, forbidden

if TYPE_CHECKING:
    from pytest_kwait.simulator.request_info import User

__all__ = ["Attributes", "Decision"]

_UNTRUSTED = {"X-Content-Type-Options": "nosniff"}


class Decision(NamedTuple):
    """An authorizer's answer."""

    allowed: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Attributes:
    """A request to decide on.

    Args:
        user: the user.
        verb: the verb.
        group: the resource's API group.
        resource: the resource, empty for a path.
        subresource: the subresource, empty for none.
        name: the object, empty for all.
        namespace: the namespace, empty for the whole cluster.
        path: a non-resource path; None for a resource.
    """

    user: User
    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    namespace: str = ""
    path: str | None = None

    @property
    def full_resource(self) -> str:
        """The resource with its subresource, for example `pods/log`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource

    def refusal(self, reason: str = "") -> StatusError:
        """Return the 403 with user, verb, resource and reason."""
        text = self._text().replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        if reason:
            text = f"{text}: {reason}"
        if self.path is not None:
            return StatusError(403, "Forbidden", f"forbidden: {text}", {}, _UNTRUSTED)
        error = forbidden(self.group, self.resource, self.name, text)
        error.headers = _UNTRUSTED
        return error

    def _text(self) -> str:
        who = f'User "{self.user.name}" cannot {self.verb}'
        if self.path is not None:
            return f'{who} path "{self.path}"'
        what = f'{who} resource "{self.full_resource}" in API group "{self.group}"'
        if self.namespace:
            return f'{what} in the namespace "{self.namespace}"'
        return f"{what} at the cluster scope"
