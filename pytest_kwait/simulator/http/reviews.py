"""Reviews: questions about users and what they may do, asked by creating objects.

Source: k8s.io/kubernetes pkg/registry/authentication, pkg/registry/authorization.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.http.auth import ADMINS

if TYPE_CHECKING:
    from pytest_kwait.simulator.http.auth import Credentials
    from pytest_kwait.simulator.http.request import ApiRequest
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.registry import Kind

__all__ = ["review"]

_SELF = frozenset({"selfsubjectaccessreviews", "selfsubjectreviews", "selfsubjectrulesreviews"})


def review(credentials: Credentials, request: ApiRequest, kind: Kind, asked: Obj) -> Obj:
    """The review with its answer."""
    caller = request.caller
    spec = asked.get("spec") or {}
    body: Obj = {
        "kind": kind.kind,
        "apiVersion": kind.api_version,
        "metadata": asked.get("metadata") or {},
    }
    if kind.plural == "selfsubjectreviews":
        groups = list(caller.groups)
        body["status"] = {"userInfo": {"username": caller.user, "groups": groups}}
        return body
    body["spec"] = spec
    if kind.plural == "tokenreviews":
        user = credentials.user_of(spec.get("token", ""))
        if user is None:
            body["status"] = {
                "user": {},
                "error": "[invalid bearer token, token lookup failed]",
            }
        else:
            groups = [*user.groups, "system:authenticated"]
            body["status"] = {
                "authenticated": True,
                "user": {"username": user.name, "groups": groups},
                "audiences": ["https://kubernetes.default.svc"],
            }
        return body
    groups = list(caller.groups) if kind.plural in _SELF else list(spec.get("groups") or ())
    admin = ADMINS in groups
    if kind.plural == "selfsubjectrulesreviews":
        rules = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}] if admin else []
        paths = [{"verbs": ["*"], "nonResourceURLs": ["*"]}] if admin else []
        body["status"] = {"resourceRules": rules, "nonResourceRules": paths, "incomplete": False}
        return body
    body["status"] = {"allowed": admin}
    return body
