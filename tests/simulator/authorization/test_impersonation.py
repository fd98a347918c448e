from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.authorization.impersonation import (
    ImpersonatedUser,
    Impersonator,
    missing_user_error,
)
from pytest_kwait.simulator.authorization.rbac import CLUSTER_BINDINGS, CLUSTER_ROLES
from pytest_kwait.simulator.request_info import (
    AUTHENTICATED,
    MASTERS,
    AuthorizationAttributes,
    User,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster

ROOT = User("root", (MASTERS,))
AGENT = User(
    "system:serviceaccount:default:agent",
    extra={"authentication.kubernetes.io/node-name": ("n1",)},
)
GROUP = "authentication.k8s.io"


def let(api: SimulatedCluster, user: User, *rules: dict[str, Any]) -> None:
    subject = {"kind": "User", "name": user.name}
    reference = {"kind": "ClusterRole", "name": "lets"}
    api.create(CLUSTER_ROLES, {"metadata": {"name": "lets"}, "rules": list(rules)})
    bound = {"metadata": {"name": "lets"}, "roleRef": reference, "subjects": [subject]}
    api.create(CLUSTER_BINDINGS, bound)


def get_pods(user: User) -> AuthorizationAttributes:
    return AuthorizationAttributes(user, "get", "", "pods", "", "a", "default")


@pytest.mark.parametrize(
    ("wanted", "groups"),
    [
        (ImpersonatedUser("jane"), (AUTHENTICATED,)),
        (ImpersonatedUser("jane", groups=("a",)), ("a", AUTHENTICATED)),
        (ImpersonatedUser("jane", groups=("system:unauthenticated",)), ("system:unauthenticated",)),
        (ImpersonatedUser("system:anonymous"), ("system:unauthenticated",)),
        (ImpersonatedUser("system:node:n1"), ("system:nodes", AUTHENTICATED)),
        (
            ImpersonatedUser("system:serviceaccount:a:b"),
            ("system:serviceaccounts", "system:serviceaccounts:a", AUTHENTICATED),
        ),
        (ImpersonatedUser("system:serviceaccount:a:b", groups=("g",)), ("g", AUTHENTICATED)),
        (ImpersonatedUser("jane", groups=(MASTERS,)), (MASTERS, AUTHENTICATED)),
    ],
)
def test_groups_of_the_impersonated_user(
    api: SimulatedCluster, wanted: ImpersonatedUser, groups: tuple[str, ...]
) -> None:
    user = Impersonator(api.rbac).become(wanted, get_pods(ROOT))
    assert (user.name, user.groups) == (wanted.name, groups)


def test_the_mode_that_was_last_right_is_tried_first(api: SimulatedCluster) -> None:
    """So a node has the groups of its kind, or those of anybody, as upstream has it."""
    impersonation = Impersonator(api.rbac)
    assert (
        impersonation.become(ImpersonatedUser("system:node:n1"), get_pods(ROOT)).groups[0]
        == "system:nodes"
    )
    impersonation.become(ImpersonatedUser("jane", groups=(MASTERS,)), get_pods(ROOT))
    again = impersonation.become(ImpersonatedUser("system:node:n1"), get_pods(ROOT))
    assert again.groups == (AUTHENTICATED,)


def test_agent_impersonates_its_node(api: SimulatedCluster) -> None:
    let(
        api,
        AGENT,
        {"apiGroups": [GROUP], "resources": ["nodes"], "verbs": ["impersonate:associated-node"]},
        {
            "apiGroups": [""],
            "resources": ["pods"],
            "verbs": ["impersonate-on:associated-node:get"],
        },
    )
    impersonation = Impersonator(api.rbac)
    user = impersonation.become(ImpersonatedUser("system:node:n1"), get_pods(AGENT))
    assert user.groups == ("system:nodes", AUTHENTICATED)
    with pytest.raises(StatusError, match="cannot impersonate-on:arbitrary-node:get"):
        impersonation.become(ImpersonatedUser("system:node:n2"), get_pods(AGENT))


def test_many_groups_and_extras_are_allowed_by_one_rule(api: SimulatedCluster) -> None:
    verb = "impersonate:user-info"
    let(
        api,
        AGENT,
        {"apiGroups": [GROUP], "resources": ["users", "groups"], "verbs": [verb]},
        {"apiGroups": [GROUP], "resources": ["userextras/*"], "verbs": [verb]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["impersonate-on:user-info:get"]},
    )
    impersonation = Impersonator(api.rbac)
    four = tuple("abcd")
    user = impersonation.become(
        ImpersonatedUser("jane", groups=four, extra={"a.io/b": four}), get_pods(AGENT)
    )
    assert user.extra == {"a.io/b": four}
    with pytest.raises(StatusError, match=r'resource "userextras/a.io/b" in API group'):
        impersonation.become(ImpersonatedUser("jane", extra={"a.io/b": ("x",)}), get_pods(AGENT))


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (
            ImpersonatedUser("jane", groups=("",)),
            "impersonating the empty string group is not allowed",
        ),
        (
            ImpersonatedUser("jane", groups=(MASTERS,)),
            "impersonating the system:masters group is not",
        ),
        (
            ImpersonatedUser("jane", extra={"": ("x",)}),
            "impersonating the empty string key in extra is",
        ),
        (
            ImpersonatedUser("jane", extra={"a.io/b": ("",)}),
            "impersonating the empty string value in extra",
        ),
        (
            ImpersonatedUser("jane", extra={"a": ("x",)}),
            'impersonating an invalid key in extra is not allowed: extra.key: Invalid value: "a": '
            'must be a domain-prefixed path (such as "acme.io/foo")',
        ),
    ],
)
def test_users_that_cannot_be_impersonated(
    api: SimulatedCluster, wanted: ImpersonatedUser, why: str
) -> None:
    let(
        api,
        AGENT,
        {"apiGroups": [GROUP], "resources": ["users"], "verbs": ["impersonate:user-info"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["impersonate-on:user-info:get"]},
    )
    with pytest.raises(StatusError) as refused:
        Impersonator(api.rbac).become(wanted, get_pods(AGENT))
    assert why in refused.value.message


def test_impersonation_headers_without_a_user() -> None:
    error = missing_user_error(
        ImpersonatedUser("", "u", ("g", "h"), {"b": ("x",), "a": ("y", "z")})
    )
    assert error.code == 400
    assert error.message == (
        'requested &user.DefaultInfo{Name:"", UID:"u", Groups:[]string{"g", "h"}, '
        'Extra:map[string][]string{"a":[]string{"y", "z"}, "b":[]string{"x"}}} without '
        "impersonating a user name"
    )
