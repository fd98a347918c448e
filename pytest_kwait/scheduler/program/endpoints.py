"""What each path answers, and to whom."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from pytest_kwait.errors import ApiError, KwaitError
from pytest_kwait.wait import DeadlineExceeded

from .go_values import quote
from .health import PING, report

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from .authentication import Authenticator
    from .authorization import Authorizer
    from .health import HealthCheck

__all__ = ["Answer", "Endpoints", "Question"]

_TEXT = "text/plain; charset=utf-8"
_JSON = "application/json"
_NO_SNIFF = {"X-Content-Type-Options": "nosniff"}
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Question:
    """A request.

    Args:
        method: the HTTP method.
        target: path and query as they were sent.
        headers: by their names in lower case.
        certificate: the trusted client certificate as `ssl` has it; None if none was shown.
    """

    method: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict)
    certificate: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What is sent back."""

    status: int
    body: bytes
    content_type: str = _TEXT
    headers: Mapping[str, str] = field(default_factory=dict)


class Endpoints:
    """The paths of the program.

    Args:
        health: the checks of `/healthz`, `/livez` and `/readyz` by these names.
        pages: what other paths show: given the Accept header, content type and content.
        authenticator: says who asks; None to serve everybody, as the insecure port does.
        authorizer: says what they may read.

    Source: cmd/kube-scheduler/app/server.go newEndpointsHandler, buildHandlerChain.
    """

    def __init__(
        self,
        health: Mapping[str, Sequence[HealthCheck]],
        pages: Mapping[str, Callable[[str], tuple[str, bytes]]],
        authenticator: Authenticator | None = None,
        authorizer: Authorizer | None = None,
    ) -> None:
        self._health = {name: checks or (PING,) for name, checks in health.items()}
        self._pages = pages
        self._authenticator = authenticator
        self._authorizer = authorizer

    def insecure(self) -> Endpoints:
        """Return the same paths, open to everybody."""
        return Endpoints(self._health, self._pages)

    def answer(self, question: Question) -> Answer:
        """Answer a request: 401 to who is not who it says, 403 to who may not, 404 for no path."""
        parts = urlsplit(question.target)
        path = parts.path or "/"
        refusal = self._refusal(question, path)
        if refusal is not None:
            return refusal
        if question.method not in ("GET", "HEAD"):
            return Answer(405, b"405 method not allowed\n", headers={**_NO_SNIFF, "Allow": "GET"})
        name, _, check = path.removeprefix("/").partition("/")
        if name in self._health and (check or not path.endswith("/")):
            return self._report(name, check, parse_qs(parts.query, keep_blank_values=True))
        page = self._pages.get(path)
        if page is None:
            return Answer(404, b"404 page not found\n", headers=_NO_SNIFF)
        content_type, content = page(question.headers.get("accept", ""))
        return Answer(200, content, content_type)

    def _refusal(self, question: Question, path: str) -> Answer | None:
        if self._authenticator is None or self._authorizer is None:
            return None
        user = self._authenticator.authenticate(
            question.headers.get("authorization"), question.certificate
        )
        if user is None:
            return _status(401, "Unauthorized", "Unauthorized")
        verb = question.method.lower()
        try:
            permission = self._authorizer.authorize(user, verb, path)
        except (ApiError, DeadlineExceeded) as error:
            _log.error("%s %s: cannot be authorized: %s", question.method, path, error)
            text = f"Internal Server Error: {quote(question.target)}: {error}\n"
            return Answer(500, _safe(text).encode(), headers=_NO_SNIFF)
        if permission.allowed:
            return None
        what = _safe(f"User {quote(user.name)} cannot {verb} path {quote(path)}")
        why = f": {permission.reason}" if permission.reason else ""
        return _status(403, "Forbidden", f"forbidden: {what}{why}", details={})

    def _report(self, name: str, check: str, query: Mapping[str, Sequence[str]]) -> Answer:
        checks = self._health[name]
        if not check:
            status, text = report(
                name, checks, excluded=query.get("exclude", ()), verbose="verbose" in query
            )
            return Answer(status, text.encode(), headers=_NO_SNIFF)
        for one in checks:
            if one.name == check:
                try:
                    one.check()
                except KwaitError as error:
                    return Answer(
                        500, f"internal server error: {error}\n".encode(), headers=_NO_SNIFF
                    )
                return Answer(200, b"ok")
        return Answer(404, b"404 page not found\n", headers=_NO_SNIFF)


def _status(code: int, reason: str, message: str, **more: object) -> Answer:
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        **more,
        "code": code,
    }
    return Answer(code, json.dumps(status, indent=2).encode(), _JSON, _NO_SNIFF)


def _safe(text: str) -> str:
    """Keep browsers from reading the text as HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
