"""The authorizer.

The context variable `AUTHORIZER` holds the authorizer during an evaluation: functions of an
expression only receive their arguments.

Source: k8s.io/apiserver pkg/cel/library/authz.go.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.cel.values import OpaqueValue

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.cel.library.overloads import Overloads

AUTHORIZER: ContextVar[Callable[[dict[str, Any]], tuple[bool, str]]] = ContextVar("DECIDES")
"""The authorizer of the current evaluation: returns whether a check is allowed, and why."""


def make_authorizer(user: dict[str, Any], resource: dict[str, str]) -> OpaqueValue:
    """Return the variable `authorizer`.

    Args:
        resource: the requested resource.
    """
    own = OpaqueValue("ResourceCheck", user=user, **resource)
    return OpaqueValue("Authorizer", user=user, requestResource=own)


def _make_setter(kind: str, field: str) -> Callable[[OpaqueValue, str], OpaqueValue]:
    def narrowed(value: OpaqueValue, text: str) -> OpaqueValue:
        fields = {key: entry for key, entry in value.items() if key != "requestResource"}
        return OpaqueValue(kind, **{**fields, field: text})

    return narrowed


def _make_path_check(value: OpaqueValue, path: str) -> OpaqueValue:
    if not path:
        raise ValueError("path must not be empty")
    return _make_setter("PathCheck", "path")(value, path)


def _make_service_account_authorizer(_: OpaqueValue, namespace: str, name: str) -> OpaqueValue:
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    user = {
        "name": f"system:serviceaccount:{namespace}:{name}",
        "groups": [*groups, "system:authenticated"],
    }
    return OpaqueValue("Authorizer", user=user)


def _check(value: OpaqueValue, verb: str) -> OpaqueValue:
    allowed, reason = AUTHORIZER.get()({**value, "verb": verb})
    return OpaqueValue("Decision", allowed=allowed, reason=reason)


AUTHZ_FUNCTIONS: Overloads = {
    (".path", ("Authorizer", "string"), "PathCheck"): _make_path_check,
    (
        ".serviceAccount",
        ("Authorizer", "string", "string"),
        "Authorizer",
    ): _make_service_account_authorizer,
    (".group", ("Authorizer", "string"), "GroupCheck"): _make_setter("GroupCheck", "group"),
    (".resource", ("GroupCheck", "string"), "ResourceCheck"): _make_setter(
        "ResourceCheck", "resource"
    ),
    **{
        (f".{field}", ("ResourceCheck", "string"), "ResourceCheck"): _make_setter(
            "ResourceCheck", field
        )
        for field in ("subresource", "namespace", "name", "fieldSelector", "labelSelector")
    },
    (".check", ("PathCheck", "string"), "Decision"): _check,
    (".check", ("ResourceCheck", "string"), "Decision"): _check,
    (".allowed", ("Decision",), "bool"): lambda value: value["allowed"],
    (".reason", ("Decision",), "string"): lambda value: value["reason"],
    (".errored", ("Decision",), "bool"): lambda _: False,
    (".error", ("Decision",), "string"): lambda _: "",
}
