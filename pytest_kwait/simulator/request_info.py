"""Users and the circumstances of one request: user, field manager, dry run, warnings.

Source: k8s.io/apiserver pkg/authentication/user, pkg/authentication/serviceaccount/util.go.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kwait.simulator.objects import Obj

__all__ = [
    "ANONYMOUS",
    "AUTHENTICATED",
    "MASTERS",
    "UNAUTHENTICATED",
    "Caller",
    "User",
    "add_group",
    "internal_caller",
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
    """A user with groups, UID and extra attributes."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def info(self) -> Obj:
        """Return the `UserInfo` of reviews, without empty fields."""
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
    """Return `groups` with `group`, once."""
    return groups if group in groups else (*groups, group)


def service_account_groups(namespace: str) -> tuple[str, ...]:
    """Return the groups of every service account of a namespace."""
    return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")


def parse_service_account_user(user: str) -> tuple[str, str] | None:
    """Return namespace and name of a service account's user name; None for other users."""
    if not user.startswith(_SERVICE_ACCOUNT_PREFIX):
        return None
    parts = user[len(_SERVICE_ACCOUNT_PREFIX) :].split(":")
    if len(parts) != 2 or not _LABEL.fullmatch(parts[0]) or not _SUBDOMAIN.fullmatch(parts[1]):
        return None
    return parts[0], parts[1]


def parse_node_user(user: str) -> str | None:
    """Return the node of a kubelet's user name; None for other users."""
    name = user.removeprefix("system:node:")
    return name if name != user and _SUBDOMAIN.fullmatch(name) else None


FieldValidation = Literal["Ignore", "Warn", "Strict"]


@dataclass(slots=True)
class Caller:
    """The user and the options of one request.

    Args:
        user: the user's name.
        groups: the user's groups.
        uid: the user's UID; empty for none.
        extra: further attributes from authentication.
        manager: the field manager of the write; empty records none.
        dry_run: do everything but store.
        field_validation: the handling of unknown fields.
        warnings: texts for `Warning` headers of the response.
        complaints: errors of strict decoding.
    """

    user: str = "system:kube-controller-manager"
    groups: tuple[str, ...] = ("system:masters", "system:authenticated")
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    manager: str = ""
    dry_run: bool = False
    field_validation: FieldValidation = "Ignore"
    warnings: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    @property
    def identity(self) -> User:
        """The user, for authorization."""
        return User(self.user, self.groups, self.uid, self.extra)

    def become(self, user: User) -> None:
        """Replace the user."""
        self.user, self.groups, self.uid, self.extra = (
            user.name,
            user.groups,
            user.uid,
            user.extra,
        )

    def warn(self, text: str) -> None:
        """Add a warning for the client, once."""
        if text not in self.warnings:
            self.warnings.append(text)


def internal_caller() -> Caller:
    """Return the caller of the cluster's own writes, without a field manager."""
    return Caller()
