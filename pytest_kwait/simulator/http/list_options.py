"""The query of a list or a watch, checked.

Source: k8s.io/apimachinery pkg/apis/meta/internalversion/{defaults,validation}.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kwait.simulator.field_selectors import FieldSelector, parse_fields
from pytest_kwait.simulator.selectors import LabelSelector, parse_labels
from pytest_kwait.simulator.status_error import (
    FieldError,
    bad_request,
    forbidden_field,
    invalid,
    not_supported,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.http.request import ApiRequest
    from pytest_kwait.simulator.registry import Kind
    from pytest_kwait.simulator.store import Entry

__all__ = ["ListOptions", "continue_token", "read_continue", "read_options"]

_MATCHES = ("Exact", "NotOlderThan")


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
    def selective(self) -> bool:
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
    if query.get("sendInitialEvents"):
        initial = request.flag("sendInitialEvents")
    version, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
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
        limit=request.number("limit") or 0,
        token=token,
        watch=watch,
        bookmarks=request.flag("allowWatchBookmarks"),
        initial_events=initial,
        timeout=request.number("timeoutSeconds"),
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
        if match not in _MATCHES:
            errors.append(not_supported("resourceVersionMatch", match, (*_MATCHES, "")))
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


def continue_token(revision: int, last_key: str) -> str:
    """The token that goes on after `last_key` in the state of `revision`; -1 for any state."""
    content = {"v": "meta.k8s.io/v1", "rv": revision, "start": f"{last_key}\0"}
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


def read_continue(token: str) -> tuple[int, str]:
    """Revision and last key of a token.

    Raises:
        StatusError: 400, it is none that this server made.
    """
    try:
        content = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        if content["v"] != "meta.k8s.io/v1":
            raise bad_request(
                "invalid continue token: continue key is not valid: server does not recognize "
                f'this encoded version "{content["v"]}"'
            )
        return int(content["rv"]), str(content["start"]).rstrip("\0")
    except (ValueError, KeyError, TypeError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from None
