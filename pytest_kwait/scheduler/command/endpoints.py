"""What each path answers, and to whom."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from pytest_kwait.errors import ApiError, KwaitError
from pytest_kwait.scheduler.command.go_values import quote_go
from pytest_kwait.scheduler.command.health import PING, format_health_report
from pytest_kwait.wait import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from pytest_kwait.scheduler.command.authorization import Authorizer
    from pytest_kwait.scheduler.command.delegated_auth import Authenticator
    from pytest_kwait.scheduler.command.health import HealthCheck

__all__ = ["HTTPRequest", "HTTPResponse", "Routes"]

_TEXT = "text/plain; charset=utf-8"
_JSON = "application/json"
_NO_SNIFF = {"X-Content-Type-Options": "nosniff"}
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HTTPRequest:
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
class HTTPResponse:
    """What is sent back."""

    status: int
    body: bytes
    content_type: str = _TEXT
    headers: Mapping[str, str] = field(default_factory=dict)


class Routes:
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

    def insecure(self) -> Routes:
        """Return the same paths, open to everybody."""
        return Routes(self._health, self._pages)

    def answer(self, question: HTTPRequest) -> HTTPResponse:
        """Answer a request: 401 to who is not who it says, 403 to who may not, 404 for no path."""
        parts = urlsplit(question.target)
        path = parts.path or "/"
        refusal = self._refusal(question, path)
        if refusal is not None:
            return refusal
        if question.method not in ("GET", "HEAD"):
            return HTTPResponse(
                405, b"405 method not allowed\n", headers={**_NO_SNIFF, "Allow": "GET"}
            )
        name, _, check = path.removeprefix("/").partition("/")
        if name in self._health and (check or not path.endswith("/")):
            return self._report(name, check, parse_qs(parts.query, keep_blank_values=True))
        page = self._pages.get(path)
        if page is None:
            return HTTPResponse(404, b"404 page not found\n", headers=_NO_SNIFF)
        content_type, content = page(question.headers.get("accept", ""))
        return HTTPResponse(200, content, content_type)

    def _refusal(self, question: HTTPRequest, path: str) -> HTTPResponse | None:
        if self._authenticator is None or self._authorizer is None:
            return None
        user = self._authenticator.authenticate(
            question.headers.get("authorization"), question.certificate
        )
        if user is None:
            return _make_status(401, "Unauthorized", "Unauthorized")
        verb = question.method.lower()
        try:
            permission = self._authorizer.authorize(user, verb, path)
        except (ApiError, DeadlineExceeded) as error:
            _log.error("%s %s: cannot be authorized: %s", question.method, path, error)
            text = f"Internal Server Error: {quote_go(question.target)}: {error}\n"
            return HTTPResponse(500, _escape_html(text).encode(), headers=_NO_SNIFF)
        if permission.allowed:
            return None
        what = _escape_html(f"User {quote_go(user.name)} cannot {verb} path {quote_go(path)}")
        why = f": {permission.reason}" if permission.reason else ""
        return _make_status(403, "Forbidden", f"forbidden: {what}{why}", details={})

    def _report(self, name: str, check: str, query: Mapping[str, Sequence[str]]) -> HTTPResponse:
        checks = self._health[name]
        if not check:
            status, text = format_health_report(
                name, checks, excluded=query.get("exclude", ()), verbose="verbose" in query
            )
            return HTTPResponse(status, text.encode(), headers=_NO_SNIFF)
        for one in checks:
            if one.name == check:
                try:
                    one.check()
                except KwaitError as error:
                    return HTTPResponse(
                        500, f"internal server error: {error}\n".encode(), headers=_NO_SNIFF
                    )
                return HTTPResponse(200, b"ok")
        return HTTPResponse(404, b"404 page not found\n", headers=_NO_SNIFF)


def _make_status(code: int, reason: str, message: str, **more: object) -> HTTPResponse:
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
    return HTTPResponse(code, json.dumps(status, indent=2).encode(), _JSON, _NO_SNIFF)


def _escape_html(text: str) -> str:
    """Keep browsers from reading the text as HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
