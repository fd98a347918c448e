"""What the identity of a run must be allowed so that namespaces can be made, and what it lacks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kwait.api.resource import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS, Resource
from pytest_kwait.clock import Deadline
from pytest_kwait.errors import ApiError
from pytest_kwait.wait.interruption import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kwait.api.session import Session

__all__ = ["Right", "lacking", "needed_rights"]

_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io",
    "v1",
    "selfsubjectaccessreviews",
    "SelfSubjectAccessReview",
    namespaced=False,
)
_SUBJECT_REVIEWS = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)
_LIMIT = 5.0
"""Seconds that all answers together may take; what is not known by then is not missed."""

_ADVICE = (
    "grant it that; or give --kwait-namespace NAME: tests then share the namespace of that name, "
    "which must exist, and what they make in it is removed one by one"
)


@dataclass(frozen=True, slots=True)
class Right:
    """Something that one may be allowed.

    Args:
        verb: what may be done.
        resource: to what.
        name: to which one; empty for all.
        decisive: whether nothing goes without it. What is to be done to a namespace or inside of
            it may be granted once it is there: alone, it is not missed before.
    """

    verb: str
    resource: Resource
    name: str = ""
    decisive: bool = True

    def __str__(self) -> str:
        if self.name:
            return f"{self.verb} {self.resource.plural} {self.name}"
        where = " in every namespace" if self.resource.namespaced else ""
        return f"{self.verb} {self.resource.plural}{where}"

    @property
    def attributes(self) -> dict[str, str]:
        """The `resourceAttributes` of a SelfSubjectAccessReview.

        A namespace counts as an object of itself, so that a role in it may grant reading it.

        Source: apiserver/pkg/endpoints/request/requestinfo.go NewRequestInfo.
        """
        attributes = {
            "verb": self.verb,
            "group": self.resource.group,
            "resource": self.resource.plural,
        }
        if self.name:
            attributes["name"] = self.name
            if self.resource == NAMESPACES:
                attributes["namespace"] = self.name
        return attributes


def needed_rights(*, namespace: str | None, keeps: bool) -> tuple[Right, ...]:
    """Return what the fixtures do by themselves, whatever the tests do.

    Args:
        namespace: the existing one that is used; None where namespaces are made.
        keeps: whether some namespaces are kept, which are annotated then.
    """
    if namespace is not None:
        return (Right("get", NAMESPACES, namespace),)
    return (
        Right("create", NAMESPACES),
        Right("delete", NAMESPACES, decisive=False),
        *([Right("patch", NAMESPACES, decisive=False)] if keeps else []),
        *(
            Right(verb, resource, decisive=False)
            for resource in (SERVICE_ACCOUNTS, CONFIG_MAPS)
            for verb in ("list", "watch")
        ),
    )


def lacking(session: Session, rights: Sequence[Right], place: str) -> str:
    """Return who lacks which rights, and what to do about it; empty if nothing decisive is missing.

    All are asked for at once. A server that does not say counts as one that allows: it says later,
    when it refuses something.

    Args:
        session: who asks.
        rights: what is needed.
        place: the cluster, for the message.
    """
    deadline = Deadline.after(_LIMIT, session.clock)
    with ThreadPoolExecutor(len(rights), thread_name_prefix="kwait rights") as pool:
        answers = pool.map(lambda right: _is_denied(session, right, deadline), rights)
        missing = [right for right, denied in zip(rights, answers, strict=True) if denied]
    if not any(right.decisive for right in missing):
        return ""
    listed = "\n".join(f"  {right}" for right in missing)
    advice = _ADVICE if not any(right.name for right in missing) else "grant it that"
    return (
        f"{_identity(session, deadline)} may not do on {place} what pytest-kwait needs for itself:"
        f"\n{listed}\n{advice}"
    )


def _is_denied(session: Session, right: Right, deadline: Deadline) -> bool:
    spec = {"resourceAttributes": right.attributes}
    status = _reviewed(session, _ACCESS_REVIEWS, {"spec": spec}, deadline).get("status") or {}
    return status.get("allowed") is False


def _identity(session: Session, deadline: Deadline) -> str:
    """Return as whom the server knows us.

    Source: kubectl auth whoami.
    """
    status = _reviewed(session, _SUBJECT_REVIEWS, {}, deadline).get("status") or {}
    name = (status.get("userInfo") or {}).get("username")
    return f"user {name!r}" if name else "the user of the run"


def _reviewed(
    session: Session, resource: Resource, review: dict[str, Any], deadline: Deadline
) -> dict[str, Any]:
    """Return the review with its answer; without one if the server gives none."""
    obj = {"apiVersion": resource.api_version, "kind": resource.kind, **review}
    try:
        return session.create(resource, obj, deadline=deadline)
    except (ApiError, DeadlineExceeded):
        return {}
