"""Rights that a run's identity needs, checked before anything is created.

A required right stops the run if it is missing. Rights on and in a namespace may be granted with
the namespace, by a role for its creator. Without an optional right the run does less.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_kwait.client.resource import (
    CONFIG_MAPS,
    DAEMON_SETS,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SERVICE_ACCOUNTS,
    Resource,
)
from pytest_kwait.clock import Deadline
from pytest_kwait.errors import ApiError
from pytest_kwait.suite.cleanup.run_lease import LEASE_NAMESPACE
from pytest_kwait.suite.readiness import SYSTEM_NAMESPACE
from pytest_kwait.wait.context import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.suite.config.settings import Settings

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
"""Seconds for all reviews together; rights not known by then count as granted."""

_MAX_PARALLEL = 8
"""Maximum number of reviews at the same time."""

_EVERYTHING = {"verb": "*", "group": "*", "resource": "*"}

_ADVICE = (
    "grant it that; or give --kwait-namespace NAME: tests then share the namespace of that name, "
    "which must exist, and what they make in it is removed one by one"
)


class Need(Enum):
    """The importance of a permission."""

    DECISIVE = "decisive"
    """Nothing goes without it."""

    LATER = "later"
    """It may be granted with a namespace: alone, it is not missed before."""

    RICHER = "richer"
    """The run continues without it."""


@dataclass(frozen=True, slots=True)
class Right:
    """A right: verb, resource and scope.

    Args:
        name: the name of one object; empty for all.
        namespace: empty for all namespaces.
        subresource: empty for the resource itself.
        need: how much it is needed.
        loss: what the run does not do without it.
    """

    verb: str
    resource: Resource
    name: str = ""
    namespace: str = ""
    subresource: str = ""
    need: Need = Need.DECISIVE
    loss: str = ""

    @property
    def place(self) -> str:
        """The scope of the right, as a phrase."""
        text = self.resource.qualified
        if self.subresource:
            text += f"/{self.subresource}"
        if self.name:
            return f"{text} {self.name}"
        if not self.resource.namespaced:
            return text
        return f"{text} in {self.namespace or 'every namespace'}"

    @property
    def attributes(self) -> dict[str, str]:
        """The `resourceAttributes` of a SelfSubjectAccessReview.

        A namespace counts as an object in itself, so a role in it may grant reading it.

        Source: apiserver/pkg/endpoints/request/requestinfo.go NewRequestInfo.
        """
        named = {
            "name": self.name,
            "namespace": self.name if self.resource == NAMESPACES else self.namespace,
            "subresource": self.subresource,
        }
        return {
            "verb": self.verb,
            "group": self.resource.group,
            "resource": self.resource.plural,
            **{key: value for key, value in named.items() if value},
        }


class MissingRights(NamedTuple):
    """Rights that an identity does not have.

    Args:
        refusal: why tests cannot run, and how to solve it; empty if they can.
        losses: what the run does not do, a line each.
    """

    refusal: str = ""
    losses: tuple[str, ...] = ()


def needed_rights(settings: Settings) -> tuple[Right, ...]:
    """Return the rights that a run needs for itself, whatever its tests do."""
    namespace = settings.namespace or ""
    rights = [
        *([Right("get", NAMESPACES, namespace)] if namespace else _namespace_rights(settings)),
        *_rights_on(
            ("create", "delete", "get", "list", "patch", "update", "watch"),
            LEASES,
            "what it leaves if it is killed stays until it expires, and no serial test is run",
            namespace or LEASE_NAMESPACE,
        ),
        *_rights_on(
            ("list",),
            NAMESPACES,
            "what dead runs have left stays"
            + ("" if namespace else ", and nothing bounds how many namespaces there are at a time"),
        ),
    ]
    for resource, subresource, verb in (
        (PODS, "", "list"),
        (EVENTS, "", "list"),
        (PODS, "log", "get"),
    ):
        loss = "failures are told without them"
        rights += _rights_on((verb,), resource, loss, namespace, subresource)
    if settings.session_waits:
        loss = "not awaited before the first test"
        rights += _rights_on(("list", "watch"), NODES, loss)
        for resource in (PODS, REPLICATION_CONTROLLERS, REPLICA_SETS, DAEMON_SETS):
            rights += _rights_on(("list", "watch"), resource, loss, SYSTEM_NAMESPACE)
    return tuple(rights)


def _namespace_rights(settings: Settings) -> list[Right]:
    # A watch begins with a list.
    read_verbs = ("get", "list", *(["watch"] if settings.mode == "watch" else []))
    return [
        Right("create", NAMESPACES),
        Right("delete", NAMESPACES, need=Need.LATER),
        *([Right("patch", NAMESPACES, need=Need.LATER)] if settings.keep != "never" else []),
        *(
            Right(verb, resource, need=Need.LATER)
            for resource in (SERVICE_ACCOUNTS, CONFIG_MAPS)
            for verb in read_verbs
        ),
    ]


def _rights_on(
    verbs: Iterable[str], resource: Resource, loss: str, namespace: str = "", subresource: str = ""
) -> list[Right]:
    return [Right(verb, resource, "", namespace, subresource, Need.RICHER, loss) for verb in verbs]


def find_missing_rights(session: ApiSession, rights: Sequence[Right], place: str) -> MissingRights:
    """Return the missing rights, and how to grant them.

    An identity that may do everything is checked by one review; otherwise all rights are checked in
    parallel. A review without an answer counts as granted.

    Args:
        place: the cluster's name in the message.
    """
    deadline = Deadline.after(_LIMIT, session.clock)
    if _is_allowed(session, _EVERYTHING, deadline):
        return MissingRights()
    with ThreadPoolExecutor(_MAX_PARALLEL, thread_name_prefix="kwait rights") as pool:
        answers = pool.map(lambda right: _is_allowed(session, right.attributes, deadline), rights)
        missing = [right for right, answer in zip(rights, answers, strict=True) if answer is False]
    own = [right for right in missing if right.need is not Need.RICHER]
    losses = _format_rights(right for right in missing if right.need is Need.RICHER)
    if not any(right.need is Need.DECISIVE for right in own):
        if not losses:
            return MissingRights()
        first = f"{_identity(session, deadline)} may not do on {place} what runs go on without:"
        return MissingRights("", (first, *losses))
    lines = [
        f"{_identity(session, deadline)} may not do on {place} what pytest-kwait needs for itself:",
        *_format_rights(own),
        *(["and what runs go on without:", *losses] if losses else []),
        "grant it that" if any(right.name for right in own) else _ADVICE,
    ]
    return MissingRights("\n".join(lines))


def _format_rights(rights: Iterable[Right]) -> list[str]:
    """Return a line for each resource of the rights."""
    verbs: dict[tuple[str, str], list[str]] = {}
    for right in rights:
        verbs.setdefault((right.place, right.loss), []).append(right.verb)
    return [
        f"  {', '.join(those)} {place}{f': {loss}' if loss else ''}"
        for (place, loss), those in verbs.items()
    ]


def _is_allowed(session: ApiSession, attributes: dict[str, str], deadline: Deadline) -> bool | None:
    """Return whether the server allows a right; None if it does not answer."""
    spec = {"resourceAttributes": attributes}
    status = _create_review(session, _ACCESS_REVIEWS, {"spec": spec}, deadline).get("status") or {}
    allowed = status.get("allowed")
    return allowed if isinstance(allowed, bool) else None


def _identity(session: ApiSession, deadline: Deadline) -> str:
    """Return the name by which the server knows the identity.

    Source: kubectl auth whoami.
    """
    status = _create_review(session, _SUBJECT_REVIEWS, {}, deadline).get("status") or {}
    name = (status.get("userInfo") or {}).get("username")
    return f"user {name!r}" if name else "the user of the run"


def _create_review(
    session: ApiSession, resource: Resource, review: dict[str, Any], deadline: Deadline
) -> dict[str, Any]:
    """Return the review with its status; without one if the server gives none."""
    obj = {"apiVersion": resource.api_version, "kind": resource.kind, **review}
    try:
        return session.create(resource, obj, deadline=deadline)
    except (ApiError, DeadlineExceeded):
        return {}
