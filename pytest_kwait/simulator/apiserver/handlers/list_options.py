"""The query of a list or a watch, checked.

Source: k8s.io/apimachinery pkg/apis/meta/internalversion/{defaults,validation}.
"""

from __future__ import annotations

import base64
import binascii
import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_kwait.simulator.api_errors import (
    FieldError,
    StatusError,
    bad_request,
    forbidden_field,
    invalid,
    not_supported,
)
from pytest_kwait.simulator.codec.json_yaml import find_json_error
from pytest_kwait.simulator.field_selectors import FieldSelector, parse_fields
from pytest_kwait.simulator.selectors import LabelSelector, parse_labels

if TYPE_CHECKING:
    from pytest_kwait.simulator.apiserver.request import ApiRequest
    from pytest_kwait.simulator.scheme import Kind
    from pytest_kwait.simulator.store import Entry

__all__ = ["ListOptions", "decode_continue_token", "encode_continue_token", "read_options"]

_RESOURCE_VERSION_MATCHES = ("Exact", "NotOlderThan")


@dataclass(frozen=True, slots=True)
class ListOptions:
    """What of a resource is wanted."""

    labels: LabelSelector
    fields: FieldSelector
    version: str
    match: str
    limit: int
    token: str
    watch: bool
    bookmarks: bool
    initial_events: bool | None
    timeout: int | None

    @property
    def is_selective(self) -> bool:
        """Whether a selector may leave objects out."""
        return bool(self.labels) or bool(self.fields)

    def selects(self, entry: Entry) -> bool:
        """Whether the selectors match."""
        obj = entry.obj
        if self.labels and not self.labels.matches(obj["metadata"].get("labels") or {}):
            return False
        return not self.fields or self.fields.matches(obj)


def read_options(
    request: ApiRequest, kind: Kind, *, name: str = "", watch: bool = False
) -> ListOptions:
    """The options of a list or watch request.

    Args:
        request: the request.
        kind: what is listed; it says which fields can be selected by.
        name: the one object that the path names, for watches of one object.
        watch: whether the path already says that it is a watch.

    Raises:
        StatusError: 400 for what cannot be read, 422 for what does not go together.
    """
    query = request.query
    labels = parse_labels(query.get("labelSelector", ""))
    text = query.get("fieldSelector", "")
    fields = parse_fields(text, kind)
    if name:
        if text and fields.name != name:
            raise bad_request("fieldSelector metadata.name doesn't match requested name")
        fields = parse_fields(f"metadata.name={name}", kind)
    watch = watch or request.flag("watch")
    initial: bool | None = None
    if "sendInitialEvents" in query:
        initial = request.flag("sendInitialEvents")
    version, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
    limit, timeout = request.number("limit"), request.number("timeoutSeconds")
    if watch and initial is None and not match and version in ("", "0"):
        initial, match = True, "NotOlderThan"
    token = query.get("continue", "")
    errors = (
        _watch_errors(match, initial, token)
        if watch
        else _list_errors(match, version, initial, token)
    )
    if errors:
        raise invalid("meta.k8s.io", "ListOptions", "", errors)
    return ListOptions(
        labels=labels,
        fields=fields,
        version=version,
        match=match,
        limit=max(limit or 0, 0),
        token=token,
        watch=watch,
        bookmarks=request.flag("allowWatchBookmarks"),
        initial_events=initial,
        timeout=timeout,
    )


def _list_errors(match: str, version: str, initial: bool | None, token: str) -> list[FieldError]:
    errors = []
    if match:
        if not version:
            text = "resourceVersionMatch is forbidden unless resourceVersion is provided"
            errors.append(forbidden_field("resourceVersionMatch", text))
        if token:
            text = "resourceVersionMatch is forbidden when continue is provided"
            errors.append(forbidden_field("resourceVersionMatch", text))
        if match not in _RESOURCE_VERSION_MATCHES:
            errors.append(
                not_supported("resourceVersionMatch", match, (*_RESOURCE_VERSION_MATCHES, ""))
            )
        if match == "Exact" and version == "0":
            text = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            errors.append(forbidden_field("resourceVersionMatch", text))
    if initial is not None:
        text = "sendInitialEvents is forbidden for list"
        errors.append(forbidden_field("sendInitialEvents", text))
    return errors


def _watch_errors(match: str, initial: bool | None, token: str) -> list[FieldError]:
    errors = []
    if initial is not None and match != "NotOlderThan":
        text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        errors.append(forbidden_field("resourceVersionMatch", text))
    if match:
        if initial is None:
            text = (
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            )
            errors.append(forbidden_field("resourceVersionMatch", text))
        if match != "NotOlderThan":
            errors.append(not_supported("resourceVersionMatch", match, ("NotOlderThan",)))
        if token:
            text = "resourceVersionMatch is forbidden when continue is provided"
            errors.append(forbidden_field("resourceVersionMatch", text))
    return errors


def encode_continue_token(revision: int, last_key: str) -> str:
    """The token that goes on after `last_key` in the state of `revision`; -1 for any state."""
    content = {"v": _TOKEN_VERSION, "rv": revision, "start": f"{last_key}\0"}
    return base64.urlsafe_b64encode(msgspec.json.encode(content)).decode().rstrip("=")


def decode_continue_token(token: str) -> tuple[int, str]:
    """Revision and first key of a token.

    Raises:
        StatusError: 400, it is none that this server made.

    Source: k8s.io/apiserver pkg/storage/continue.go, DecodeContinue.
    """
    content = _token_content(token)
    version = content.get("v") or ""
    if version != _TOKEN_VERSION:
        raise _invalid_token_error(f"server does not recognize this encoded version {version}")
    revision, start = content.get("rv") or 0, content.get("start") or ""
    if revision == 0:
        raise _invalid_token_error(
            f"incorrect encoded start resourceVersion (version {_TOKEN_VERSION})"
        )
    if not start:
        raise _invalid_token_error(f"encoded start key empty (version {_TOKEN_VERSION})")
    rooted = start if start.startswith("/") else f"/{start}"
    if posixpath.normpath(rooted) != rooted:
        raise _invalid_token_error(start)
    return revision, rooted[1:]


_TOKEN_VERSION = "meta.k8s.io/v1"  # noqa: S105 - names a format
_TOKEN_TYPES = {"v": (str, "string"), "rv": (int, "int64"), "start": (str, "string")}


def _token_content(token: str) -> dict[str, Any]:
    sign = re.search(r"[^A-Za-z0-9_-]", token)
    if sign or len(token) % 4 == 1:
        at = sign.start() if sign else len(token) - 1
        raise _invalid_token_error(f"illegal base64 data at input byte {at}")
    try:
        data = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        content = msgspec.json.decode(data)
    except (binascii.Error, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _invalid_token_error(find_json_error(data)) from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise _invalid_token_error(
            f"json: cannot unmarshal {_json_type_name(content)} into Go value of type "
            "storage.continueToken"
        )
    for name, (kind, shown) in _TOKEN_TYPES.items():
        value = content.get(name)
        if value is not None and type(value) is not kind:
            raise _invalid_token_error(
                f"json: cannot unmarshal {_json_type_name(value)} into Go struct field "
                f"continueToken.{name} of type {shown}"
            )
    return content


def _json_type_name(value: object) -> str:
    """What Go's JSON reader calls a value of a wrong type."""
    if isinstance(value, float):
        return f"number {value}"
    names = {str: "string", bool: "bool", dict: "object", list: "array"}
    return names.get(type(value), "number")


def _invalid_token_error(why: str) -> StatusError:
    return bad_request(f"invalid continue token: continue key is not valid: {why}")
