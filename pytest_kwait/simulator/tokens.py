"""Tokens of service accounts.

Source: k8s.io/kubernetes pkg/registry/core/serviceaccount/storage/token.go. The tokens are opaque:
nothing in the embedded cluster reads claims.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from pytest_kwait.clock import rfc3339
from pytest_kwait.simulator.objects import clone, name_of, namespace_of
from pytest_kwait.simulator.users import User

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

__all__ = ["issue_token"]

_AUDIENCE = "https://kubernetes.default.svc"
_SECONDS = 3600


def issue_token(account: Obj, request: Obj, now: float) -> tuple[User, Obj]:
    """The user that the new token stands for, and the answered TokenRequest that carries it."""
    name, namespace = name_of(account), namespace_of(account)
    spec = clone(request.get("spec") or {})
    spec.setdefault("audiences", [_AUDIENCE])
    spec.setdefault("expirationSeconds", _SECONDS)
    spec.setdefault("boundObjectRef", None)
    user = User(
        f"system:serviceaccount:{namespace}:{name}",
        ("system:serviceaccounts", f"system:serviceaccounts:{namespace}"),
    )
    body = {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": rfc3339(now)},
        "spec": spec,
        "status": {
            "token": secrets.token_urlsafe(48),
            "expirationTimestamp": rfc3339(now + spec["expirationSeconds"]),
        },
    }
    return user, body
