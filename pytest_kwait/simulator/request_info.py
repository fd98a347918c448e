"""The circumstances of one request: user, field manager, dry run, warnings, attributes.

Source: k8s.io/apiserver pkg/authentication/user, pkg/authentication/serviceaccount/util.go,
pkg/authorization/authorizer/interfaces.go, pkg/endpoints/handlers/responsewriters/errors.go.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from pytest_kwait.simulator.api_errors import StatusError, forbidden

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kwait.simulator.objects import EmptiedObj, Obj

ANONYMOUS = "system:anonymous"
AUTHENTICATED = "system:authenticated"
MASTERS = "system:masters"
UNAUTHENTICATED = "system:unauthenticated"
SERVER_MANAGER = "kube-apiserver"
CONTROLLER_MANAGER = "kube-controller-manager"
SCHEDULER_MANAGER = "kube-scheduler"
KUBELET_MANAGER = "kubelet"
"""The field manager of what the server itself writes."""
FieldValidation = Literal["Ignore", "Warn", "Strict"]

_SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(
    r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
)
_UNTRUSTED = {"X-Content-Type-Options": "nosniff"}


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


@dataclass(slots=True)
class Caller:
    """The user and the options of one request.

    Args:
        user: the user's name.
        groups: the user's groups.
        uid: the user's UID; empty for none.
        extra: further attributes from authentication.
        manager: the field manager of the write; empty records none.
        internal: whether it is a component of this process, whose writes are decoded.
        applies: whether its writes are server-side applies of what they change.
        version: the API version of its writes, as `events.k8s.io/v1`; empty for that of the object.
        dry_run: do everything but store.
        field_validation: the handling of unknown fields.
        write_options: the options that the request names, for admission reviews.
        warnings: texts for `Warning` headers of the response.
        strict_errors: errors of strict decoding.
        empty_fields: the fields whose empty lists decoding has made null, as `rules`.
        emptied_objects: the objects of which some fields were given empty; until they are stored.
    """

    user: str = "system:kube-controller-manager"
    groups: tuple[str, ...] = ("system:masters", "system:authenticated")
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    manager: str = ""
    internal: bool = False
    applies: bool = False
    version: str = ""
    dry_run: bool = False
    field_validation: FieldValidation = "Ignore"
    write_options: Obj = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    strict_errors: list[str] = field(default_factory=list)
    empty_fields: list[str] = field(default_factory=list)
    emptied_objects: list[EmptiedObj] = field(default_factory=list)

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


def internal_caller(manager: str = CONTROLLER_MANAGER, version: str = "") -> Caller:
    """Return the caller of writes of the cluster's components, by the name of their process."""
    return Caller(manager=manager, internal=True, version=version)


def applying_caller(manager: str) -> Caller:
    """Return the caller of a component's server-side applies, by its own field manager."""
    return Caller(manager=manager, internal=True, applies=True)


def server_caller() -> Caller:
    """Return the caller of kube-apiserver's own writes."""
    return internal_caller(SERVER_MANAGER)


class AuthorizerDecision(NamedTuple):
    """An authorizer's answer."""

    allowed: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class AuthorizationAttributes:
    """A request to decide on.

    Args:
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
        subject_text = f'User "{self.user.name}" cannot {self.verb}'
        if self.path is not None:
            return f'{subject_text} path "{self.path}"'
        request_text = f'{subject_text} resource "{self.full_resource}" in API group "{self.group}"'
        if self.namespace:
            return f'{request_text} in the namespace "{self.namespace}"'
        return f"{request_text} at the cluster scope"


class Authorizer(Protocol):
    """Decides on requests and lists the rules of users."""

    def decide(self, attributes: AuthorizationAttributes) -> AuthorizerDecision:
        """Return whether it is allowed, with the reason."""

    def rules_for(self, user: User, namespace: str) -> list[Obj]:
        """The rules that a user has, those of the whole cluster first."""

    def errors_for(self, user: User, namespace: str) -> list[str]:
        """Errors in bindings of the user."""

    def role_rules(self, reference: Obj, namespace: str) -> list[Obj]:
        """The rules of the role that a binding refers to; StatusError 404 if it is missing."""
