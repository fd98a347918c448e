"""An API request: the resource in its path, its query and its headers.

Source: k8s.io/apiserver pkg/endpoints/request/requestinfo.go, k8s.io/apimachinery
pkg/runtime/conversion.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote

from pytest_kwait.simulator.api_errors import (
    FieldError,
    StatusError,
    bad_request,
    invalid,
    invalid_value,
    not_supported,
    too_long,
)
from pytest_kwait.simulator.apiserver.negotiation import negotiate
from pytest_kwait.simulator.codec.go_text import parse_int
from pytest_kwait.simulator.objects import new_uid
from pytest_kwait.simulator.request_info import Caller

if TYPE_CHECKING:
    from aiohttp.web import BaseRequest

    from pytest_kwait.simulator.apiserver.negotiation import ResponseForm

__all__ = [
    "SPECIAL_VERBS",
    "ApiRequest",
    "RequestInfo",
    "parse_flag",
    "parse_integer",
    "parse_request_info",
]

SPECIAL_VERBS = ("proxy", "watch")
"""Verbs that once stood in paths; only the latter still leads somewhere."""
_CLUSTER_SUBRESOURCES = frozenset({"status", "finalize"})
"""What follows a namespace's own name and is no resource in it."""
_MAX_FIELD_MANAGER_LENGTH = 128
_AUDIT_ID_PREFIX = new_uid()[:24]
_request_numbers = count(1)


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """The resource that a path names."""

    group: str
    version: str
    resource: str
    namespace: str | None = None
    name: str = ""
    subresource: str = ""
    rest: str = ""
    watch: bool = False


@lru_cache(maxsize=4096)
def parse_request_info(path: str) -> RequestInfo | None:
    """The resource that `path` names, None for a path that names none."""
    parts = path.removeprefix("/").rstrip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    if len(rest) == 1 and rest[0] in SPECIAL_VERBS:
        return None
    watch = rest[0] == "watch"
    if watch:
        rest = rest[1:]
    # A slash that is written as %2F parts names all the same.
    names = unquote("/".join(rest)).split("/")
    rest = rest if len(rest) == len(names) else names
    namespace: str | None = None
    if names[0] == "namespaces" and len(names) > 2 and names[2] not in _CLUSTER_SUBRESOURCES:
        namespace, names, rest = names[1], names[2:], rest[2:]
    return RequestInfo(
        group=group,
        version=version,
        resource=names[0],
        namespace=namespace,
        name=names[1] if len(names) > 1 else "",
        subresource=names[2] if len(names) > 2 else "",
        rest="/".join(rest[3:]),
        watch=watch,
    )


class ApiRequest:
    """One HTTP request, with its parts read when they are first needed.

    Args:
        http: the request as the server library has it.
    """

    def __init__(self, http: BaseRequest) -> None:
        self.http = http
        self.method = http.method
        raw, _, self.query_text = http.raw_path.partition("?")
        self.path = raw
        self._query: dict[str, str] | None = None
        self._form: ResponseForm | None = None
        self.expired: StatusError | None = None
        """Why a watch has no history to begin with; None where it has, as far as is known."""
        self.caller = Caller(user="system:anonymous", groups=("system:unauthenticated",))

    @property
    def query(self) -> dict[str, str]:
        """The query's parameters; of several values the first one."""
        if self._query is None:
            self._query = {}
            if self.query_text:
                for name, value in self.queries:
                    self._query.setdefault(name, value)
        return self._query

    @property
    def queries(self) -> list[tuple[str, str]]:
        """The query's parameters with all their values; those with a semicolon do not count."""
        text = self.query_text
        if ";" in text:
            text = "&".join(pair for pair in text.split("&") if ";" not in pair)
        return parse_qsl(text, keep_blank_values=True)

    @property
    def audit_id(self) -> str:
        """What the request is known by: as its client says, or else in its turn."""
        return self.header("Audit-ID") or f"{_AUDIT_ID_PREFIX}{next(_request_numbers):012x}"

    def header(self, name: str) -> str:
        """A header's value, empty without the header."""
        value: str = self.http.headers.get(name, "")
        return value

    @property
    def form(self) -> ResponseForm:
        """The form that the client wants its answer in.

        Raises:
            StatusError: 406, the server does not have it.
        """
        if self._form is None:
            self._form = negotiate(self.header("Accept"))
        return self._form

    def flag(self, name: str) -> bool:
        """Whether a parameter is there and not set to something false."""
        return name in self.query and parse_flag(self.query[name])

    def number(self, name: str) -> int | None:
        """A parameter's whole number, None without the parameter.

        Raises:
            StatusError: 400, it is none.
        """
        if name not in self.query:
            return None
        return parse_integer(self.query[name])

    def writer(self) -> Caller:
        """The caller with what the query says about how to write.

        Raises:
            StatusError: 400 or 422, it says something that does not exist.
        """
        caller, query = self.caller, self.query
        if not query:
            caller.manager = _default_field_manager(self.header("User-Agent"))
            caller.field_validation = "Warn"
            return caller
        manager = query.get("fieldManager", "")
        dry_run = [value for name, value in self.queries if name == "dryRun"]
        errors = _field_manager_errors(manager)
        if any(value != "All" for value in dry_run):
            errors.append(not_supported("dryRun", dry_run, ["All"]))
        validation = query.get("fieldValidation", "")
        if validation not in ("", "Ignore", "Warn", "Strict"):
            errors.append(
                not_supported("fieldValidation", validation, ["", "Ignore", "Strict", "Warn"])
            )
        if errors:
            kinds = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}
            raise invalid("meta.k8s.io", kinds.get(self.method, "DeleteOptions"), "", errors)
        caller.manager = manager or _default_field_manager(self.header("User-Agent"))
        caller.dry_run = bool(dry_run)
        if validation == "Ignore":
            caller.field_validation = "Ignore"
        elif validation == "Strict":
            caller.field_validation = "Strict"
        else:
            caller.field_validation = "Warn"
        return caller


def _default_field_manager(user_agent: str) -> str:
    """The field manager of a client that names none: its program, as its user agent has it."""
    name = user_agent.partition("/")[0][:_MAX_FIELD_MANAGER_LENGTH]
    return name or "unknown"


def _field_manager_errors(manager: str) -> list[FieldError]:
    """What is wrong with the name of a field manager."""
    if len(manager.encode()) > _MAX_FIELD_MANAGER_LENGTH:
        return [too_long("fieldManager", _MAX_FIELD_MANAGER_LENGTH)]
    for at, sign in enumerate(manager):
        if not sign.isprintable():
            why = f"invalid character U+{ord(sign):04X} (at position {at})"
            return [invalid_value("fieldManager", manager, why)]
    return []


def parse_flag(text: str) -> bool:
    """Whether a parameter of this text is true: all are but `0` and `false`."""
    return text != "0" and text.lower() != "false"


def parse_integer(text: str) -> int:
    """The whole number of 64 bits that `text` spells.

    Raises:
        StatusError: 400, it spells none.
    """
    try:
        return parse_int(text)
    except ValueError as error:
        raise bad_request(str(error)) from None
