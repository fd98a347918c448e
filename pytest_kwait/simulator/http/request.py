"""What a request asks for, read from its path, its query and its headers.

Source: k8s.io/apiserver pkg/endpoints/request/requestinfo.go,
pkg/endpoints/handlers/negotiation/negotiate.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Literal
from urllib.parse import parse_qsl, unquote

from pytest_kwait.simulator.caller import Caller
from pytest_kwait.simulator.status_error import (
    bad_request,
    invalid,
    not_acceptable,
    not_supported,
)

if TYPE_CHECKING:
    from aiohttp.web import BaseRequest

__all__ = ["ApiRequest", "Form", "Target", "negotiate", "parse_target"]

_ACCEPTED = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
_CLUSTER_SUBRESOURCES = frozenset({"status", "finalize"})
"""What follows a namespace's own name and is no resource in it."""
_MANAGER_MAX = 128


@dataclass(frozen=True, slots=True)
class Target:
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
def parse_target(path: str) -> Target | None:
    """The resource that `path` names, None for a path that names none."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    watch = rest[0] == "watch" and len(rest) > 1
    if watch:
        rest = rest[1:]
    names = [unquote(part) for part in rest]
    namespace: str | None = None
    if names[0] == "namespaces" and len(names) > 2 and names[2] not in _CLUSTER_SUBRESOURCES:
        namespace, names, rest = names[1], names[2:], rest[2:]
    return Target(
        group=group,
        version=version,
        resource=names[0],
        namespace=namespace,
        name=names[1] if len(names) > 1 else "",
        subresource=names[2] if len(names) > 2 else "",
        rest="/".join(rest[3:]),
        watch=watch,
    )


@dataclass(frozen=True, slots=True)
class Form:
    """The form that an answer is to have."""

    media: Literal["json", "yaml"] = "json"
    convert: Literal["", "Table", "PartialObjectMetadata"] = ""
    stream: bool = False


@lru_cache(maxsize=256)
def negotiate(accept: str) -> Form:
    """The first form of an Accept header that the server has.

    Raises:
        StatusError: 406, it has none of them.
    """
    if not accept:
        return Form()
    for clause in accept.split(","):
        media, *parameters = (part.strip() for part in clause.split(";"))
        values = {
            name.strip(): value.strip()
            for name, _, value in (parameter.partition("=") for parameter in parameters)
        }
        wanted = values.get("as", "")
        if wanted:
            if values.get("g") != "meta.k8s.io" or values.get("v") not in ("v1", "v1beta1"):
                continue
            if wanted not in ("Table", "PartialObjectMetadata", "PartialObjectMetadataList"):
                continue
        convert: Literal["", "Table", "PartialObjectMetadata"] = ""
        if wanted == "Table":
            convert = "Table"
        elif wanted:
            convert = "PartialObjectMetadata"
        if media in ("application/json", "*/*", "application/*"):
            return Form("json", convert, values.get("stream") == "watch")
        if media == "application/yaml":
            return Form("yaml", convert)
    raise not_acceptable(_ACCEPTED)


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
        self.caller = Caller(user="system:anonymous", groups=("system:unauthenticated",))

    @cached_property
    def query(self) -> dict[str, str]:
        """The query's parameters; of several values the first one."""
        found: dict[str, str] = {}
        for name, value in parse_qsl(self.query_text, keep_blank_values=True):
            found.setdefault(name, value)
        return found

    @property
    def queries(self) -> list[tuple[str, str]]:
        """The query's parameters with all their values."""
        return parse_qsl(self.query_text, keep_blank_values=True)

    def header(self, name: str) -> str:
        """A header's value, empty without the header."""
        value: str = self.http.headers.get(name, "")
        return value

    @cached_property
    def form(self) -> Form:
        """The form that the client wants its answer in.

        Raises:
            StatusError: 406, the server does not have it.
        """
        return negotiate(self.header("Accept"))

    def flag(self, name: str) -> bool:
        """Whether a parameter is set to something true."""
        return self.query.get(name, "").lower() in ("1", "t", "true")

    def number(self, name: str) -> int | None:
        """A parameter's whole number, None without the parameter.

        Raises:
            StatusError: 400, it is none.
        """
        text = self.query.get(name, "")
        if not text:
            return None
        try:
            return int(text)
        except ValueError:
            raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None

    def writer(self) -> Caller:
        """The caller with what the query says about how to write.

        Raises:
            StatusError: 400 or 422, it says something that does not exist.
        """
        caller, query = self.caller, self.query
        manager = query.get("fieldManager", "")
        dry_run = query.get("dryRun", "")
        errors = []
        if dry_run and dry_run != "All":
            errors.append(not_supported("dryRun", [dry_run], ["All"]))
        validation = query.get("fieldValidation", "")
        if validation not in ("", "Ignore", "Warn", "Strict"):
            errors.append(
                not_supported("fieldValidation", validation, ["", "Ignore", "Strict", "Warn"])
            )
        if errors:
            kinds = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}
            raise invalid("meta.k8s.io", kinds.get(self.method, "DeleteOptions"), "", errors)
        caller.manager = manager or _manager_of(self.header("User-Agent"))
        caller.dry_run = dry_run == "All"
        if validation == "Ignore":
            caller.field_validation = "Ignore"
        elif validation == "Strict":
            caller.field_validation = "Strict"
        else:
            caller.field_validation = "Warn"
        return caller


def _manager_of(user_agent: str) -> str:
    """The field manager of a client that names none: its program, as its user agent has it."""
    name = user_agent.partition("/")[0][:_MANAGER_MAX]
    return name or "unknown"
