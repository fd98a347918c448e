"""Asking what users may do.

Whom to ask is told around an evaluation, by `DECIDES`: the functions of an expression are given
its values alone.

Source: k8s.io/apiserver pkg/cel/library/authz.go.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.cel.cel_values import Own

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["DECIDES", "FUNCTIONS", "authorizer_of"]

DECIDES: ContextVar[Callable[[dict[str, Any]], tuple[bool, str]]] = ContextVar("DECIDES")
"""What tells whether what a check asks for is allowed, and why."""


def authorizer_of(user: dict[str, Any], resource: dict[str, str]) -> Own:
    """The variable `authorizer`.

    Args:
        user: who makes the request.
        resource: what it is made on.
    """
    own = Own("ResourceCheck", user=user, **resource)
    return Own("Authorizer", user=user, requestResource=own)


def _with(kind: str, field: str) -> Callable[[Own, str], Own]:
    def narrowed(value: Own, given: str) -> Own:
        kept = {key: one for key, one in value.items() if key != "requestResource"}
        return Own(kind, **{**kept, field: given})

    return narrowed


def _path(value: Own, path: str) -> Own:
    if not path:
        raise ValueError("path must not be empty")
    return _with("PathCheck", "path")(value, path)


def _account(_: Own, namespace: str, name: str) -> Own:
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    user = {
        "name": f"system:serviceaccount:{namespace}:{name}",
        "groups": [*groups, "system:authenticated"],
    }
    return Own("Authorizer", user=user)


def _check(value: Own, verb: str) -> Own:
    allowed, reason = DECIDES.get()({**value, "verb": verb})
    return Own("Decision", allowed=allowed, reason=reason)


FUNCTIONS: dict[tuple[str, tuple[str, ...], str], Callable[..., Any]] = {
    (".path", ("Authorizer", "string"), "PathCheck"): _path,
    (".serviceAccount", ("Authorizer", "string", "string"), "Authorizer"): _account,
    (".group", ("Authorizer", "string"), "GroupCheck"): _with("GroupCheck", "group"),
    (".resource", ("GroupCheck", "string"), "ResourceCheck"): _with("ResourceCheck", "resource"),
    **{
        (f".{field}", ("ResourceCheck", "string"), "ResourceCheck"): _with("ResourceCheck", field)
        for field in ("subresource", "namespace", "name", "fieldSelector", "labelSelector")
    },
    (".check", ("PathCheck", "string"), "Decision"): _check,
    (".check", ("ResourceCheck", "string"), "Decision"): _check,
    (".allowed", ("Decision",), "bool"): lambda value: value["allowed"],
    (".reason", ("Decision",), "string"): lambda value: value["reason"],
    (".errored", ("Decision",), "bool"): lambda _: False,
    (".error", ("Decision",), "string"): lambda _: "",
}
"""By name, types taken and type given."""
