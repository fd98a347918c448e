"""Content negotiation: the form of a response, by the Accept header.

The router checks media types only, the handler also their parameters. Protobuf is not supported: a
client that also accepts JSON gets JSON.

Source: k8s.io/apiserver pkg/endpoints/handlers/negotiation/negotiate.go,
pkg/endpoints/handlers/rest.go; github.com/emicklei/go-restful route.go, matchesAccept.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from pytest_kwait.simulator.api_errors import StatusError, not_acceptable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = [
    "AGGREGATED",
    "PRODUCED",
    "STREAMED",
    "ResponseForm",
    "check_produced",
    "negotiate",
    "negotiate_discovery",
    "negotiate_plain",
    "negotiate_stream",
]

PRODUCED = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
STREAMED = (
    *PRODUCED,
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
)
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

Convert = Literal["", "Table", "PartialObjectMetadata", "PartialObjectMetadataList"]
_CONVERSIONS: dict[str, Convert] = {
    "Table": "Table",
    "PartialObjectMetadata": "PartialObjectMetadata",
    "PartialObjectMetadataList": "PartialObjectMetadataList",
}


@dataclass(frozen=True, slots=True)
class ResponseForm:
    """The form of a response."""

    media: Literal["json", "yaml"] = "json"
    convert: Convert = ""
    version: str = "v1"
    """The version of the target kind."""


class _Clause(NamedTuple):
    kind: str
    sub: str
    quality: float
    parameters: Mapping[str, str]


_Target = tuple[str, str, str]
"""The group, version and kind that a clause requests."""


def check_produced(accept: str, produced: tuple[str, ...]) -> None:
    """Check the Accept header against the media types of a route.

    Raises:
        StatusError: 406, none is accepted.
    """
    if not accept or accept == "application/json":
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
def negotiate_discovery(accept: str) -> bool:
    """Return whether the client accepts aggregated discovery."""
    wanted = ("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList")
    form = _choose_form(accept, lambda target: target in (None, wanted))
    return form is not None and form.version == "aggregated"


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
        given = clause.parameters
        target: _Target | None = None
        if {"g", "v", "as"} & given.keys():
            target = (given.get("g", ""), given.get("v", ""), given.get("as", ""))
        if given.get("sv") or not allowed(target):
            continue
        streamed = given.get("stream", "")
        for media in ("json", "yaml"):
            if clause.kind not in ("application", "*"):
                continue
            if clause.sub != media and clause.sub != "*":
                continue
            if clause.kind == "*" and clause.sub != "*":
                continue
            if streamed and (streamed != "watch" or media == "yaml"):
                continue
            shown: Literal["json", "yaml"] = "json" if media == "json" else "yaml"
            if target is None:
                return ResponseForm(shown)
            if target[2] not in _CONVERSIONS:
                return ResponseForm(shown, "", "aggregated")
            return ResponseForm(shown, _CONVERSIONS[target[2]], target[1])
    return None


def _parse_clauses(accept: str) -> list[_Clause]:
    """Parse the clauses of a header, by descending quality."""
    found = []
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
        found.append(_Clause(kind.strip(), sub.strip(), quality, values))
    found.sort(key=lambda one: (-one.quality, one.kind == "*", one.sub == "*"))
    return found


def _parse_quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 1.0
