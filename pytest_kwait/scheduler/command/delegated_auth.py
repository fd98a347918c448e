"""Authentication and authorization of requests, delegated to the API server.

Callers are identified by client certificate or by TokenReview, and are anonymous otherwise.
Access is granted for always-allowed paths, to members of system:masters, or by
SubjectAccessReview. Reviews are cached.

Source: apiserver, pkg/authentication/authenticatorfactory, pkg/authorization/authorizerfactory.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pytest_kwait.client.resource import CONFIG_MAPS, Resource
from pytest_kwait.clock import SYSTEM_CLOCK, Clock, Deadline
from pytest_kwait.engine.retry import request_with_retry
from pytest_kwait.errors import ApiError
from pytest_kwait.scheduler.command import CommandError
from pytest_kwait.wait import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from pytest_kwait.client.session import ApiSession

TOKEN_REVIEWS = Resource(
    "authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False
)

SUBJECT_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)

_Value = TypeVar("_Value")
_AUTHENTICATED = "system:authenticated"
_TOKEN_REVIEW_TIMEOUT = 10.0
"""Seconds of one review, including retries."""

_log = logging.getLogger(__name__)

_MASTERS = "system:masters"
_ACCESS_REVIEW_TIMEOUT = 10.0


class TTLCache(Generic[_Value]):
    """A cache of the latest answers, each until it expires; thread-safe.

    Args:
        most: the maximum number of answers; the oldest are removed first.
    """

    def __init__(self, clock: Clock, most: int = 4096) -> None:
        self._clock = clock
        self._most = most
        self._answers: OrderedDict[Hashable, tuple[float, _Value]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, question: Hashable) -> _Value | None:
        """Return the answer; None if there is none or it has expired."""
        with self._lock:
            entry = self._answers.get(question)
            if entry is None:
                return None
            until, answer = entry
            if self._clock.monotonic() >= until:
                del self._answers[question]
                return None
            return answer

    def put(self, question: Hashable, answer: _Value, seconds: float) -> None:
        """Cache an answer for a time; not at all for zero."""
        if seconds <= 0:
            return
        with self._lock:
            self._answers.pop(question, None)
            self._answers[question] = (self._clock.monotonic() + seconds, answer)
            while len(self._answers) > self._most:
                self._answers.popitem(last=False)


@dataclass(frozen=True, slots=True)
class UserInfo:
    """The user of a request.

    Args:
        name: the user name.
        uid: distinguishes users of the same name; may be empty.
        extra: further attributes from the authenticator.
    """

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)


ANONYMOUS = UserInfo("system:anonymous", ("system:unauthenticated",))


class Authenticator:
    """Authenticates requests by client certificate or token review.

    Args:
        session: the client for token reviews; None to accept no tokens.
        ttl: seconds for which an answer to a token is cached, refusals included.

    Source: apiserver pkg/authentication/authenticatorfactory/delegating.go.
    """

    def __init__(
        self, session: ApiSession | None, ttl: float = 10.0, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._session = session
        self._ttl = ttl
        self._clock = clock
        self._answers: TTLCache[tuple[UserInfo | None]] = TTLCache(clock)

    def authenticate(
        self, authorization: str | None, certificate: Mapping[str, Any] | None
    ) -> UserInfo | None:
        """Return the user, anonymous if the request has no credentials; None if they are invalid.

        Args:
            authorization: the header.
            certificate: the client certificate as `ssl` has it, if a trusted one was sent.
        """
        if certificate:
            user = read_certificate_user(certificate)
            if user is not None:
                return user
        token = _parse_bearer_token(authorization)
        if token is None or self._session is None:
            return ANONYMOUS
        key = hashlib.sha256(token.encode()).digest()
        cached_answer = self._answers.get(key)
        if cached_answer is not None:
            return cached_answer[0]
        try:
            user = self._review(token, self._session)
        except (ApiError, DeadlineExceeded) as error:
            _log.error("Unable to authenticate the request: %s", error)
            return None
        self._answers.put(key, (user,), self._ttl)
        return user

    def _review(self, token: str, session: ApiSession) -> UserInfo | None:
        review = {
            "apiVersion": TOKEN_REVIEWS.api_version,
            "kind": TOKEN_REVIEWS.kind,
            "spec": {"token": token},
        }
        answer = request_with_retry(
            lambda limit: session.create(TOKEN_REVIEWS, review, deadline=limit),
            Deadline.after(_TOKEN_REVIEW_TIMEOUT, self._clock),
        )
        status = answer.get("status") or {}
        if not status.get("authenticated"):
            _log.debug("invalid bearer token: %s", status.get("error") or "not authenticated")
            return None
        user = status.get("user") or {}
        groups = tuple(user.get("groups") or ())
        if _AUTHENTICATED not in groups:
            groups = (*groups, _AUTHENTICATED)
        return UserInfo(
            str(user.get("username") or ""), groups, user.get("uid") or "", user.get("extra") or {}
        )


def read_certificate_user(certificate: Mapping[str, Any]) -> UserInfo | None:
    """Return the user in a client certificate: common name and organizations.

    Source: apiserver pkg/authentication/request/x509/x509.go CommonNameUserConversion.
    """
    subject = [pair for part in certificate.get("subject") or () for pair in part]
    names = [value for name, value in subject if name == "commonName" and value]
    if not names:
        return None
    groups = [value for name, value in subject if name == "organizationName"]
    return UserInfo(names[-1], (*groups, _AUTHENTICATED))


def fetch_client_authorities(session: ApiSession, *, tolerate: bool) -> str | None:
    """Return the client certificate authorities that the API server publishes for extensions.

    They are read once, at the start; Kubernetes' scheduler follows their changes.

    Args:
        tolerate: whether to continue without them.

    Raises:
        CommandError: the read failed, and that is not tolerated.

    Source: apiserver pkg/server/options/authentication.go ApplyTo.
    """
    name, namespace = "extension-apiserver-authentication", "kube-system"
    try:
        config_map = request_with_retry(
            lambda limit: session.get(CONFIG_MAPS, name, namespace, deadline=limit),
            Deadline.after(_TOKEN_REVIEW_TIMEOUT, session.clock),
        )
    except (ApiError, DeadlineExceeded) as error:
        if not tolerate:
            raise CommandError(f"unable to load configmap based client CA file: {error}") from error
        _log.warning("Error looking up in-cluster authentication configuration: %s", error)
        _log.warning("Continuing without it: client certificates are ignored")
        return None
    return (config_map.get("data") or {}).get("client-ca-file") or None


def _parse_bearer_token(authorization: str | None) -> str | None:
    """Return the token of the header; None if it has none.

    Source: apiserver pkg/authentication/request/bearertoken/bearertoken.go.
    """
    scheme, _, rest = (authorization or "").strip().partition(" ")
    token = rest.strip().partition(" ")[0]
    return token if scheme.lower() == "bearer" and token else None


@dataclass(frozen=True, slots=True)
class AccessDecision:
    """The result of an authorization.

    Args:
        allowed: whether the request is allowed.
        reason: the authorizer's reason; may be empty.
    """

    allowed: bool
    reason: str = ""


ALLOWED = AccessDecision(True)


class DelegatedAuthorizer:
    """Authorizes requests for paths.

    Args:
        session: the client for access reviews; None to allow only `always`.
        always: public paths; a `*` at the end matches any rest.
        allowed_ttl: seconds for which an allowed request is cached.
        denied_ttl: seconds for which a denied request is cached.

    Source: apiserver pkg/server/options/authorization.go toAuthorizer,
    pkg/authorization/path/path.go, plugin/pkg/authorizer/webhook/webhook.go.
    """

    def __init__(
        self,
        session: ApiSession | None,
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
        """Return the access decision for a request.

        Args:
            user: the caller.
            verb: the HTTP method in lower case.
            path: the request's path without its query.

        Raises:
            ApiError: the review failed.
            DeadlineExceeded: the review took too long.
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
        decision = self._answers.get(key)
        if decision is not None:
            return decision
        permission = self._review(spec, self._session)
        self._answers.put(key, permission, self._ttl[permission.allowed])
        return permission

    def _review(self, spec: dict[str, object], session: ApiSession) -> AccessDecision:
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
