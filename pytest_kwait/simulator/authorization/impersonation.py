"""User impersonation: constrained modes first, then the older `impersonate` verb.

The modes are tried in upstream's order, for each user first the one that allowed it last; a
refusal is that of the first mode that was tried.
Source: k8s.io/apiserver pkg/endpoints/filters/impersonation/{constrained_impersonation,mode}.go.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.go_values import quote_go
from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.request_info import (
    ANONYMOUS,
    AUTHENTICATED,
    MASTERS,
    UNAUTHENTICATED,
    AuthorizationAttributes,
    User,
    add_group,
    parse_node_user,
    parse_service_account_user,
    service_account_groups,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kwait.simulator.request_info import Authorizer

_GROUP = "authentication.k8s.io"
_NODE_NAME = "authentication.kubernetes.io/node-name"
_MANY_EXTRAS = 4
"""Groups or extra values from which on the right to all of them is asked for first."""
_MAX_CACHED_MODES = 1024


@dataclass(frozen=True, slots=True)
class ImpersonatedUser:
    """The impersonated user of a request's headers."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def only_name(self) -> bool:
        """Return whether only the name is given."""
        return not (self.uid or self.groups or self.extra)


def missing_user_error(target_user: ImpersonatedUser) -> StatusError:
    """Return the error for impersonation headers without a user."""
    groups = "[]string(nil)"
    if target_user.groups:
        groups = "[]string{" + ", ".join(map(quote_go, target_user.groups)) + "}"
    extra = "map[string][]string(nil)"
    if target_user.extra:
        entries = ", ".join(
            f"{quote_go(key)}:[]string{{{', '.join(map(quote_go, values))}}}"
            for key, values in sorted(target_user.extra.items())
        )
        extra = f"map[string][]string{{{entries}}}"
    text = (
        f'requested &user.DefaultInfo{{Name:"", UID:{quote_go(target_user.uid)}, Groups:{groups}, '
        f"Extra:{extra}}} without impersonating a user name"
    )
    headers = {"X-Content-Type-Options": "nosniff"}
    return StatusError(400, "BadRequest", text, headers=headers)


class Impersonator:
    """Authorizes impersonation."""

    def __init__(self, rbac: Authorizer) -> None:
        self._rbac = rbac
        self._last: dict[str, int] = {}
        self._modes: tuple[tuple[str, Callable[[ImpersonatedUser, User], bool]], ...] = (
            ("associated-node", _is_own_node),
            ("arbitrary-node", _is_node),
            ("serviceaccount", _is_service_account),
            ("user-info", _is_other_user),
            ("", _matches_any_user),
        )

    def become(self, target_user: ImpersonatedUser, attributes: AuthorizationAttributes) -> User:
        """Return the user that the request acts as.

        Args:
            attributes: the request and its sender.

        Raises:
            StatusError: 403, the sender is not allowed to.
        """
        first: StatusError | None = None
        last = self._last.get(attributes.user.name)
        order = [*range(len(self._modes))]
        if last is not None:
            order.remove(last)
            order.insert(0, last)
        for index in order:
            mode, fits = self._modes[index]
            if not fits(target_user, attributes.user):
                continue
            try:
                user = self._check(mode, target_user, attributes)
            except StatusError as error:
                first = first or error
                continue
            if len(self._last) >= _MAX_CACHED_MODES:
                self._last.clear()
            self._last[attributes.user.name] = index
            return user
        if first is None:  # not reached: the last mode fits everybody
            raise attributes.refusal("all impersonation modes failed")
        raise first

    def _check(
        self, mode: str, target_user: ImpersonatedUser, attributes: AuthorizationAttributes
    ) -> User:
        requestor = attributes.user
        if mode:
            self._demand(replace(attributes, verb=f"impersonate-on:{mode}:{attributes.verb}"))
        user = User(target_user.name, target_user.groups, target_user.uid, target_user.extra)
        for needed in self._needed(mode, target_user, requestor):
            self._demand(needed)
        groups = user.groups
        if account := parse_service_account_user(user.name):
            groups = groups or service_account_groups(account[0])
        elif mode and parse_node_user(user.name):
            groups = ("system:nodes",)
        if user.name == ANONYMOUS:
            groups = add_group(groups, UNAUTHENTICATED)
        elif UNAUTHENTICATED not in groups:
            groups = add_group(groups, AUTHENTICATED)
        return replace(user, groups=groups)

    def _demand(self, attributes: AuthorizationAttributes) -> None:
        decision = self._rbac.decide(attributes)
        if not decision.allowed:
            raise attributes.refusal(decision.reason)

    def _needed(
        self, mode: str, target_user: ImpersonatedUser, requestor: User
    ) -> Iterator[AuthorizationAttributes]:
        """Yield the permissions that the sender needs."""
        verb = f"impersonate:{mode}" if mode else "impersonate"
        group = _GROUP if mode else ""
        name = AuthorizationAttributes(requestor, verb, group, "users", "", target_user.name)
        if account := parse_service_account_user(target_user.name):
            home, own = account
            name = replace(name, resource="serviceaccounts", namespace=home, name=own)
        elif mode and (node := parse_node_user(target_user.name)):
            every = mode == "associated-node"
            name = replace(name, resource="nodes", name="*" if every else node)
        yield name
        if target_user.uid:
            yield AuthorizationAttributes(requestor, verb, _GROUP, "uids", "", target_user.uid)
        member = AuthorizationAttributes(requestor, verb, group, "groups")
        yield from self._groups(mode, target_user.groups, member)
        extra = AuthorizationAttributes(requestor, verb, _GROUP, "userextras")
        if mode:
            _check_extra(target_user, extra)
            if _is_large(target_user):
                every_one = replace(extra, subresource="*", name="*")
                if self._rbac.decide(every_one).allowed:
                    return
        for key, values in target_user.extra.items():
            for value in values:
                yield replace(extra, subresource=key, name=value)

    def _groups(
        self, mode: str, groups: tuple[str, ...], member: AuthorizationAttributes
    ) -> Iterator[AuthorizationAttributes]:
        if mode and "" in groups:
            raise member.refusal("impersonating the empty string group is not allowed")
        if mode and MASTERS in groups:
            why = "impersonating the system:masters group is not allowed"
            raise replace(member, name=MASTERS).refusal(why)
        if (
            mode
            and len(groups) >= _MANY_EXTRAS
            and self._rbac.decide(replace(member, name="*")).allowed
        ):
            return
        for group in groups:
            yield replace(member, name=group)


def _check_extra(target_user: ImpersonatedUser, extra: AuthorizationAttributes) -> None:
    for key, values in target_user.extra.items():
        wrong = ""
        host, _, path = key.partition("/")
        if not key:
            wrong = "the empty string key in extra is not allowed"
        elif not (host and path):
            wrong = (
                "an invalid key in extra is not allowed: extra.key: Invalid value: "
                f'{quote_go(key)}: must be a domain-prefixed path (such as "acme.io/foo")'
            )
        elif "" in values:
            wrong = "the empty string value in extra is not allowed"
        if wrong:
            raise extra.refusal(f"impersonating {wrong}")


def _is_large(target_user: ImpersonatedUser) -> bool:
    return sum(max(len(values), 1) for values in target_user.extra.values()) >= _MANY_EXTRAS


def _is_own_node(target_user: ImpersonatedUser, requestor: User) -> bool:
    node = parse_node_user(target_user.name)
    return bool(
        node
        and target_user.only_name
        and parse_service_account_user(requestor.name)
        and requestor.extra.get(_NODE_NAME) == (node,)
    )


def _is_node(target_user: ImpersonatedUser, _requestor: User) -> bool:
    return target_user.only_name and parse_node_user(target_user.name) is not None


def _is_service_account(target_user: ImpersonatedUser, _requestor: User) -> bool:
    return target_user.only_name and parse_service_account_user(target_user.name) is not None


def _is_other_user(target_user: ImpersonatedUser, _requestor: User) -> bool:
    return (
        parse_node_user(target_user.name) is None
        and parse_service_account_user(target_user.name) is None
    )


def _matches_any_user(_wanted: ImpersonatedUser, _requestor: User) -> bool:
    return True
