"""Asking what users may do.

Whom to ask is told around an evaluation, by `DECIDES`: the functions of an expression are given
its values alone.

Source: k8s.io/apiserver pkg/cel/library/authz.go.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["DECIDES", "FUNCTIONS", "authorizer_of"]

DECIDES: ContextVar[Callable[[dict[str, Any]], tuple[bool, str]]] = ContextVar("DECIDES")
"""What tells whether what a check asks for is allowed, and why."""


def authorizer_of(user: dict[str, Any], resource: dict[str, str]) -> dict[str, Any]:
    """The variable `authorizer`.

    Args:
        user: who makes the request.
        resource: what it is made on.
    """
    own = {"@type": "ResourceCheck", "user": user, **resource}
    return {"@type": "Authorizer", "user": user, "requestResource": own}


def _with(kind: str, field: str) -> Callable[[dict[str, Any], str], dict[str, Any]]:
    def narrowed(value: dict[str, Any], given: str) -> dict[str, Any]:
        kept = {key: one for key, one in value.items() if key != "requestResource"}
        return {**kept, "@type": kind, field: given}

    return narrowed


def _path(value: dict[str, Any], path: str) -> dict[str, Any]:
    if not path:
        raise ValueError("path must not be empty")
    return _with("PathCheck", "path")(value, path)


def _account(_: dict[str, Any], namespace: str, name: str) -> dict[str, Any]:
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    user = {
        "name": f"system:serviceaccount:{namespace}:{name}",
        "groups": [*groups, "system:authenticated"],
    }
    return {"@type": "Authorizer", "user": user}


def _check(value: dict[str, Any], verb: str) -> dict[str, Any]:
    allowed, reason = DECIDES.get()({**value, "verb": verb})
    return {"@type": "Decision", "allowed": allowed, "reason": reason}


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
