"""An API request: the resource in its path, its query, its headers, the form of its response.

The router checks media types only, the handler also their parameters. Protobuf is not supported: a
client that also accepts JSON gets JSON.

Source: k8s.io/apiserver pkg/endpoints/request/requestinfo.go,
pkg/endpoints/handlers/{rest.go,negotiation/negotiate.go}; k8s.io/apimachinery
pkg/runtime/conversion.go; github.com/emicklei/go-restful route.go, matchesAccept.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Literal, NamedTuple
from urllib.parse import parse_qsl, unquote

from pytest_kwait.apimachinery.field_errors import (
    FieldError,
    invalid_value,
    not_supported,
    too_long,
)
from pytest_kwait.simulator.api_errors import StatusError, bad_request, invalid, not_acceptable
from pytest_kwait.simulator.codec.go_text import parse_int
from pytest_kwait.simulator.objects import new_uid
from pytest_kwait.simulator.request_info import Caller

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aiohttp.web import BaseRequest

    from pytest_kwait.simulator.store import Entry

PRODUCED = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
STREAMED = (
    *PRODUCED,
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
)
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

Convert = Literal["", "Table", "PartialObjectMetadata", "PartialObjectMetadataList"]
SPECIAL_VERBS = ("proxy", "watch")
"""Former verbs in paths; only `watch` is still served."""

_CONVERSIONS: dict[str, Convert] = {
    "Table": "Table",
    "PartialObjectMetadata": "PartialObjectMetadata",
    "PartialObjectMetadataList": "PartialObjectMetadataList",
}
_Target = tuple[str, str, str]
"""The group, version and kind that a clause requests."""
_CLUSTER_SUBRESOURCES = frozenset({"status", "finalize"})
"""Subresources of a namespace, as opposed to resources in it."""
_MAX_FIELD_MANAGER_LENGTH = 128
_AUDIT_ID_PREFIX = new_uid()[:24]
_request_numbers = count(1)


@dataclass(frozen=True, slots=True)
class ResponseForm:
    """The form of a response."""

    media: Literal["json", "yaml"] = "json"
    convert: Convert = ""
    version: str = "v1"
    """The version of the target kind."""
    indented: bool = False


class _Clause(NamedTuple):
    kind: str
    sub: str
    quality: float
    parameters: Mapping[str, str]


def check_produced(accept: str, produced: tuple[str, ...]) -> None:
    """Check the Accept header against the media types of a route.

    Raises:
        StatusError: 406, none is accepted.
    """
    if not accept or accept in produced:
        return
    for clause in accept.split(","):
        media = clause.partition(";")[0].strip()
        if media == "*/*" or media in produced:
            return
    raise not_acceptable(", ".join(produced))


@lru_cache(maxsize=256)
def negotiate(accept: str) -> ResponseForm:
    """Choose the form of objects.

    Raises:
        StatusError: 406, no accepted form is supported.
    """
    form = _choose_form(accept, lambda target: target is None or _is_conversion(target))
    if form is None:
        raise _not_acceptable_error(PRODUCED)
    return form


@lru_cache(maxsize=256)
def negotiate_plain(accept: str) -> ResponseForm:
    """Choose the form of objects that are never converted to tables or metadata.

    Raises:
        StatusError: 406, no accepted form is supported.
    """
    form = _choose_form(accept, lambda target: target is None)
    if form is None:
        raise _not_acceptable_error(PRODUCED)
    return form


def negotiate_stream(accept: str) -> ResponseForm:
    """Choose the form of a watch's events.

    Raises:
        StatusError: 406, no accepted form is supported.
    """
    form = negotiate(accept)
    if form.media != "json":
        raise _not_acceptable_error(tuple(media for media in STREAMED if ";" in media))
    return form


@lru_cache(maxsize=256)
def negotiate_discovery(accept: str) -> ResponseForm | None:
    """Return the form of aggregated discovery; None if the client does not accept it."""
    target_kind = ("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList")
    form = _choose_form(accept, lambda target: target in (None, target_kind))
    return form if form is not None and form.version == "aggregated" else None


def _not_acceptable_error(accepted: tuple[str, ...]) -> StatusError:
    message = f"only the following media types are accepted: {', '.join(accepted)}"
    return StatusError(406, "NotAcceptable", message)


def _is_conversion(target: _Target) -> bool:
    group, version, kind = target
    return group == "meta.k8s.io" and version in ("v1", "v1beta1") and kind in _CONVERSIONS


def _choose_form(accept: str, allowed: Callable[[_Target | None], bool]) -> ResponseForm | None:
    """Return the first accepted form that is supported."""
    if not accept:
        return ResponseForm()
    for clause in _parse_clauses(accept):
        parameters = clause.parameters
        target: _Target | None = None
        if {"g", "v", "as"} & parameters.keys():
            target = (parameters.get("g", ""), parameters.get("v", ""), parameters.get("as", ""))
        if parameters.get("sv") or not allowed(target):
            continue
        streamed = parameters.get("stream", "")
        for media in ("json", "yaml"):
            if clause.kind not in ("application", "*"):
                continue
            if clause.sub != media and clause.sub != "*":
                continue
            if clause.kind == "*" and clause.sub != "*":
                continue
            if streamed and (streamed != "watch" or media == "yaml"):
                continue
            encoding: Literal["json", "yaml"] = "json" if media == "json" else "yaml"
            indented = parameters.get("pretty") == "1"
            if target is None:
                return ResponseForm(encoding, indented=indented)
            if target[2] not in _CONVERSIONS:
                return ResponseForm(encoding, "", "aggregated", indented)
            return ResponseForm(encoding, _CONVERSIONS[target[2]], target[1], indented)
    return None


def _parse_clauses(accept: str) -> list[_Clause]:
    """Parse the clauses of a header, by descending quality."""
    clauses = []
    for text in accept.split(","):
        media, *parameters = (part.strip() for part in text.split(";"))
        kind, slash, sub = media.partition("/")
        if not slash and kind == "*":
            sub = "*"
        elif not slash or "/" in sub:
            continue
        values = {}
        quality = 1.0
        for parameter in parameters:
            name, _, value = (part.strip() for part in parameter.partition("="))
            if name == "q":
                quality = _parse_quality(value)
            else:
                values[name] = value
        clauses.append(_Clause(kind.strip(), sub.strip(), quality, values))
    clauses.sort(key=lambda clause: (-clause.quality, clause.kind == "*", clause.sub == "*"))
    return clauses


def _parse_quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 1.0


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
    """Parse a path; None if it names no resource."""
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
    # Encoded slashes (%2F) separate names, too.
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
    """One HTTP request; its parts are parsed on first use."""

    def __init__(self, http: BaseRequest) -> None:
        self.http = http
        self.method = http.method
        raw, _, self.query_text = http.raw_path.partition("?")
        self.path = raw
        self._query: dict[str, str] | None = None
        self._form: ResponseForm | None = None
        self.body_size = 0
        """The bytes of the body, once it is read."""
        self.expired: StatusError | None = None
        """The error with which a watch starts because its history is gone."""
        self.caller = Caller(user="system:anonymous", groups=("system:unauthenticated",))

    @property
    def query(self) -> dict[str, str]:
        """The first value of each query parameter."""
        if self._query is None:
            self._query = {}
            if self.query_text:
                for name, value in self.queries:
                    self._query.setdefault(name, value)
        return self._query

    @property
    def queries(self) -> list[tuple[str, str]]:
        """All query parameters; pairs with a semicolon are dropped."""
        text = self.query_text
        if ";" in text:
            text = "&".join(pair for pair in text.split("&") if ";" not in pair)
        return parse_qsl(text, keep_blank_values=True)

    @property
    def audit_id(self) -> str:
        """The client's audit ID, or a new one."""
        return self.header("Audit-ID") or f"{_AUDIT_ID_PREFIX}{next(_request_numbers):012x}"

    def header(self, name: str) -> str:
        """Return a header's value; empty if it is missing."""
        value: str = self.http.headers.get(name, "")
        return value

    def write_size(self, entry: Entry | None) -> int:
        """Return the size of a write: that of the body or of the object that it changes."""
        return self.body_size if entry is None else max(self.body_size, len(entry.raw))

    @property
    def form(self) -> ResponseForm:
        """The form of the response that the client accepts.

        Raises:
            StatusError: 406, the server does not support it.
        """
        if self._form is None:
            self._form = negotiate(self.header("Accept"))
        return self._form

    def flag(self, name: str) -> bool:
        """Return whether a parameter is given and true."""
        return name in self.query and parse_flag(self.query[name])

    def integer(self, name: str) -> int | None:
        """Return a parameter's integer; None if it is missing.

        Raises:
            StatusError: 400, it is not an integer.
        """
        if name not in self.query:
            return None
        return parse_integer(self.query[name])

    def read_write_options(self) -> Caller:
        """Return the caller with the write options of the query.

        Raises:
            StatusError: 400 or 422, an option is invalid.
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
        given = {"fieldManager": manager, "fieldValidation": validation}
        caller.write_options = {name: value for name, value in given.items() if value}
        if validation == "Ignore":
            caller.field_validation = "Ignore"
        elif validation == "Strict":
            caller.field_validation = "Strict"
        else:
            caller.field_validation = "Warn"
        return caller


def _default_field_manager(user_agent: str) -> str:
    """Return the program in a user agent, or `unknown`."""
    name = user_agent.partition("/")[0][:_MAX_FIELD_MANAGER_LENGTH]
    return name or "unknown"


def _field_manager_errors(manager: str) -> list[FieldError]:
    """Validate the name of a field manager."""
    if len(manager.encode()) > _MAX_FIELD_MANAGER_LENGTH:
        return [too_long("fieldManager", _MAX_FIELD_MANAGER_LENGTH)]
    for at, sign in enumerate(manager):
        if not sign.isprintable():
            why = f"invalid character U+{ord(sign):04X} (at position {at})"
            return [invalid_value("fieldManager", manager, why)]
    return []


def parse_flag(text: str) -> bool:
    """Return whether a parameter's text is true: any but `0` and `false`."""
    return text != "0" and text.lower() != "false"


def parse_integer(text: str) -> int:
    """Parse an integer of 64 bits.

    Raises:
        StatusError: 400, it is not an integer.
    """
    try:
        return parse_int(text)
    except ValueError as error:
        raise bad_request(str(error)) from None
