"""Who a caller is: by client certificate, by a token that the API server reviews, or nobody."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_kwait.client.resource import CONFIG_MAPS, Resource
from pytest_kwait.clock import SYSTEM_CLOCK, Clock, Deadline
from pytest_kwait.engine.retry import request_with_retry
from pytest_kwait.errors import ApiError
from pytest_kwait.scheduler.command.config_errors import CommandError
from pytest_kwait.scheduler.command.expiring_answers import TTLCache
from pytest_kwait.wait import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kwait.client.session import Session

__all__ = [
    "ANONYMOUS",
    "Authenticator",
    "UserInfo",
    "fetch_client_authorities",
    "read_certificate_user",
]

_AUTHENTICATED = "system:authenticated"
_TOKEN_REVIEW_TIMEOUT = 10.0
"""Seconds that a review may take, tries again included."""

TOKEN_REVIEWS = Resource(
    "authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class UserInfo:
    """A caller.

    Args:
        name: who.
        groups: whose member.
        uid: what tells users of the same name apart; may be empty.
        extra: what else the authenticator knows.
    """

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)


ANONYMOUS = UserInfo("system:anonymous", ("system:unauthenticated",))


class Authenticator:
    """Finds the user behind a request.

    Args:
        session: who reviews tokens; None if nobody: they mean nothing then.
        ttl: seconds that the answer to a token is kept, that it is none as well.
        clock: what that is measured by.

    Source: apiserver pkg/authentication/authenticatorfactory/delegating.go.
    """

    def __init__(
        self, session: Session | None, ttl: float = 10.0, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._session = session
        self._ttl = ttl
        self._clock = clock
        self._answers: TTLCache[tuple[UserInfo | None]] = TTLCache(clock)

    def authenticate(
        self, authorization: str | None, certificate: Mapping[str, Any] | None
    ) -> UserInfo | None:
        """Return the user, or nobody in particular; None: the caller is not who it says.

        Args:
            authorization: the header.
            certificate: the client certificate as `ssl` has it, if a trusted one was shown.
        """
        if certificate:
            user = read_certificate_user(certificate)
            if user is not None:
                return user
        token = _parse_bearer_token(authorization)
        if token is None or self._session is None:
            return ANONYMOUS
        key = hashlib.sha256(token.encode()).digest()
        kept = self._answers.get(key)
        if kept is not None:
            return kept[0]
        try:
            user = self._review(token, self._session)
        except (ApiError, DeadlineExceeded) as error:
            _log.error("Unable to authenticate the request: %s", error)
            return None
        self._answers.put(key, (user,), self._ttl)
        return user

    def _review(self, token: str, session: Session) -> UserInfo | None:
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
    """Return the user that a client certificate names: common name and organizations.

    Source: apiserver pkg/authentication/request/x509/x509.go CommonNameUserConversion.
    """
    subject = [pair for part in certificate.get("subject") or () for pair in part]
    names = [value for name, value in subject if name == "commonName" and value]
    if not names:
        return None
    groups = [value for name, value in subject if name == "organizationName"]
    return UserInfo(names[-1], (*groups, _AUTHENTICATED))


def fetch_client_authorities(session: Session, *, tolerate: bool) -> str | None:
    """Return the authorities of client certificates that the API server tells its extensions.

    They are read once, at the start; Kubernetes' scheduler follows their changes.

    Args:
        session: who is asked.
        tolerate: whether to go on without them.

    Raises:
        ProgramError: they cannot be had, and that is not tolerated.

    Source: apiserver pkg/server/options/authentication.go ApplyTo.
    """
    name, namespace = "extension-apiserver-authentication", "kube-system"
    try:
        found = request_with_retry(
            lambda limit: session.get(CONFIG_MAPS, name, namespace, deadline=limit),
            Deadline.after(_TOKEN_REVIEW_TIMEOUT, session.clock),
        )
    except (ApiError, DeadlineExceeded) as error:
        if not tolerate:
            raise CommandError(f"unable to load configmap based client CA file: {error}") from error
        _log.warning("Error looking up in-cluster authentication configuration: %s", error)
        _log.warning("Continuing without it: client certificates are not looked at")
        return None
    return (found.get("data") or {}).get("client-ca-file") or None


def _parse_bearer_token(authorization: str | None) -> str | None:
    """Return the token of the header; None if it has none.

    Source: apiserver pkg/authentication/request/bearertoken/bearertoken.go.
    """
    scheme, _, rest = (authorization or "").strip().partition(" ")
    token = rest.strip().partition(" ")[0]
    return token if scheme.lower() == "bearer" and token else None
