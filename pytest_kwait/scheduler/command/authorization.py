"""What a caller may read: always, as a member of system:masters, or by the API server's review."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kwait.client.resource import Resource
from pytest_kwait.clock import SYSTEM_CLOCK, Clock, Deadline
from pytest_kwait.engine.retry import request_with_retry
from pytest_kwait.scheduler.command.expiring_answers import TTLCache

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kwait.client.session import Session
    from pytest_kwait.scheduler.command.delegated_auth import UserInfo

__all__ = ["ALLOWED", "AccessDecision", "Authorizer"]

_MASTERS = "system:masters"
_ACCESS_REVIEW_TIMEOUT = 10.0

SUBJECT_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)


@dataclass(frozen=True, slots=True)
class AccessDecision:
    """Whether something is allowed.

    Args:
        allowed: whether it is.
        reason: why, if anybody said; may be empty.
    """

    allowed: bool
    reason: str = ""


ALLOWED = AccessDecision(True)


class Authorizer:
    """Decides who may read which path.

    Args:
        session: who reviews access; None if nobody.
        always: paths that everybody may read; a `*` at the end stands for any rest.
        allowed_ttl: seconds that a yes is kept.
        denied_ttl: seconds that a no is kept.
        clock: what that is measured by.

    Source: apiserver pkg/server/options/authorization.go toAuthorizer,
    pkg/authorization/path/path.go, plugin/pkg/authorizer/webhook/webhook.go.
    """

    def __init__(
        self,
        session: Session | None,
        always: Iterable[str] = (),
        allowed_ttl: float = 10.0,
        denied_ttl: float = 10.0,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._session = session
        paths = [path.removeprefix("/") for path in always]
        self._paths = frozenset(path for path in paths if not path.endswith("*"))
        self._prefixes = tuple(path[:-1] for path in paths if path.endswith("*"))
        self._ttl = {True: allowed_ttl, False: denied_ttl}
        self._clock = clock
        self._answers: TTLCache[AccessDecision] = TTLCache(clock)

    def authorize(self, user: UserInfo, verb: str, path: str) -> AccessDecision:
        """Return whether the user may do this.

        Args:
            user: who.
            verb: the HTTP method in lower case.
            path: of the request, without its query.

        Raises:
            ApiError: nobody could say.
            DeadlineExceeded: nobody said in time.
        """
        if _MASTERS in user.groups:
            return ALLOWED
        rest = path.removeprefix("/")
        if rest in self._paths or rest.startswith(self._prefixes):
            return ALLOWED
        if self._session is None:
            return AccessDecision(False)
        spec: dict[str, object] = {
            "nonResourceAttributes": {"path": path, "verb": verb},
            "user": user.name,
            "groups": list(user.groups),
            **({"uid": user.uid} if user.uid else {}),
            **({"extra": dict(user.extra)} if user.extra else {}),
        }
        key = json.dumps(spec, sort_keys=True)
        kept = self._answers.get(key)
        if kept is not None:
            return kept
        permission = self._review(spec, self._session)
        self._answers.put(key, permission, self._ttl[permission.allowed])
        return permission

    def _review(self, spec: dict[str, object], session: Session) -> AccessDecision:
        review = {
            "apiVersion": SUBJECT_ACCESS_REVIEWS.api_version,
            "kind": SUBJECT_ACCESS_REVIEWS.kind,
            "spec": spec,
        }
        answer = request_with_retry(
            lambda limit: session.create(SUBJECT_ACCESS_REVIEWS, review, deadline=limit),
            Deadline.after(_ACCESS_REVIEW_TIMEOUT, self._clock),
        )
        status = answer.get("status") or {}
        allowed = bool(status.get("allowed")) and not status.get("denied")
        return AccessDecision(allowed, str(status.get("reason") or ""))
