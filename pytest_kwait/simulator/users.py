"""Users, as authentication finds them and authorization judges them.

Source: k8s.io/apiserver pkg/authentication/user, pkg/authentication/serviceaccount/util.go.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kwait.simulator.objects import Obj

__all__ = [
    "ANONYMOUS",
    "AUTHENTICATED",
    "MASTERS",
    "UNAUTHENTICATED",
    "User",
    "add_group",
    "parse_node_user",
    "parse_service_account_user",
    "service_account_groups",
]

ANONYMOUS = "system:anonymous"
AUTHENTICATED = "system:authenticated"
MASTERS = "system:masters"
UNAUTHENTICATED = "system:unauthenticated"

_SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(
    r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
)


@dataclass(frozen=True, slots=True)
class User:
    """A user, the groups that they are in, and what else is known of them."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def info(self) -> Obj:
        """The `UserInfo` of reviews; what is empty is left out."""
        info: Obj = {}
        if self.name:
            info["username"] = self.name
        if self.uid:
            info["uid"] = self.uid
        if self.groups:
            info["groups"] = list(self.groups)
        if self.extra:
            info["extra"] = {name: list(values) for name, values in self.extra.items()}
        return info


def add_group(groups: tuple[str, ...], group: str) -> tuple[str, ...]:
    """`groups` and, where it is not among them, `group`."""
    return groups if group in groups else (*groups, group)


def service_account_groups(namespace: str) -> tuple[str, ...]:
    """The groups of every service account of a namespace."""
    return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")


def parse_service_account_user(user: str) -> tuple[str, str] | None:
    """Namespace and name of the service account of that user name, None for any other user."""
    if not user.startswith(_SERVICE_ACCOUNT_PREFIX):
        return None
    parts = user[len(_SERVICE_ACCOUNT_PREFIX) :].split(":")
    if len(parts) != 2 or not _LABEL.fullmatch(parts[0]) or not _SUBDOMAIN.fullmatch(parts[1]):
        return None
    return parts[0], parts[1]


def parse_node_user(user: str) -> str | None:
    """The name of the node of that user name, None for any other user."""
    name = user.removeprefix("system:node:")
    return name if name != user and _SUBDOMAIN.fullmatch(name) else None
