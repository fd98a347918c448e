"""The API's `Status` failures and field errors, with the server's reasons and messages.

Source: k8s.io/apimachinery pkg/api/errors/errors.go, pkg/util/validation/field/errors.go.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_kwait.simulator.objects import Obj

__all__ = [
    "ESCAPES",
    "FieldError",
    "Rendered",
    "StatusError",
    "already_exists",
    "bad_request",
    "conflict",
    "duplicate",
    "expired",
    "forbidden",
    "forbidden_field",
    "internal_error",
    "invalid",
    "invalid_value",
    "method_not_allowed",
    "not_acceptable",
    "not_found",
    "not_supported",
    "render_json",
    "required",
    "resource_not_found",
    "too_large_resource_version",
    "too_long",
    "too_many",
    "too_many_requests",
    "unauthorized",
    "unsupported_media_type",
    "verb_not_supported",
]

ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}
"""What Go writes in JSON so that it may stand in HTML."""
_QUOTED = str.maketrans(
    {sign: f"\\{name}" for sign, name in zip('\a\b\f\n\r\t\v\\"', 'abfnrtv\\"', strict=True)}
)
"""What Go has short escapes for."""


class Rendered(str):
    """A value with its own text in error messages."""

    __slots__ = ()


def render_json(value: Any) -> Rendered:
    """Return the text of a typed value in errors: its fields in their order."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return Rendered(text.translate(ESCAPES))


class StatusError(Exception):
    """The failure of an API request.

    Args:
        code: the HTTP status.
        reason: the machine-readable reason, for example `NotFound`; may be empty.
        message: the message.
        details: the `details` object; None for none.
        headers: further HTTP headers, for example `Retry-After`.
        metadata: the `metadata` object; set for expired pages only.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Obj | None = None,
        headers: Mapping[str, str] | None = None,
        metadata: Obj | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.metadata = metadata or {}
        self.headers: Mapping[str, str] = headers or {}

    def status(self) -> Obj:
        """Return the `Status` object of the response."""
        status: Obj = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status


@dataclass(frozen=True, slots=True)
class FieldError:
    """An error of one field of an object."""

    reason: str
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"

    def cause(self) -> Obj:
        """Return the entry of `details.causes`."""
        return {"reason": self.reason, "message": self.message, "field": self.field}


def required(field: str, detail: str = "") -> FieldError:
    """Return the error for a missing value."""
    return FieldError("FieldValueRequired", field, _append_detail("Required value", detail))


def invalid_value(field: str, value: object, detail: str) -> FieldError:
    """Return the error for an invalid value."""
    return FieldError(
        "FieldValueInvalid", field, _append_detail(f"Invalid value: {_format_value(value)}", detail)
    )


def not_supported(field: str, value: object, valid: Iterable[str]) -> FieldError:
    """Return the error for a value that is not one of `valid`."""
    values = ", ".join(f'"{one}"' for one in valid)
    return FieldError(
        "FieldValueNotSupported",
        field,
        f"Unsupported value: {_format_value(value)}: supported values: {values}",
    )


def forbidden_field(field: str, detail: str) -> FieldError:
    """Return the error for a field that must not be set or changed."""
    return FieldError("FieldValueForbidden", field, _append_detail("Forbidden", detail))


def duplicate(field: str, value: object) -> FieldError:
    """Return the error for a duplicate value."""
    return FieldError("FieldValueDuplicate", field, f"Duplicate value: {_format_value(value)}")


def too_long(field: str, most: int) -> FieldError:
    """Return the error for a value of more than `most` bytes."""
    return FieldError("FieldValueTooLong", field, f"Too long: may not be more than {most} bytes")


def too_many(field: str, found: int, most: int) -> FieldError:
    """Return the error for a list of more than `most` items."""
    text = f"Too many: {found}: must have at most {most} items"
    return FieldError("FieldValueTooMany", field, text)


def _append_detail(text: str, detail: str) -> str:
    return f"{text}: {detail}" if detail else text


def _format_value(value: object) -> str:
    if isinstance(value, Rendered):
        return str(value)
    if isinstance(value, str):
        return _go_quoted(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        text = json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
        return text.translate(ESCAPES)
    return str(value)


def _go_quoted(text: str) -> str:
    """Quote a text as Go's `%q`."""
    short = text.translate(_QUOTED)
    if short.isprintable():
        return f'"{short}"'
    return '"' + "".join(sign if sign.isprintable() else _escaped(sign) for sign in short) + '"'


def _escaped(sign: str) -> str:
    code = ord(sign)
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def qualified_resource(group: str, plural: str) -> str:
    """Return the name of a resource with its group: `pods`, `jobs.batch`."""
    return f"{plural}.{group}" if group else plural


def _details(group: str, kind: str, name: str, **more: Any) -> Obj:
    details: Obj = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    if kind:
        details["kind"] = kind
    details.update(more)
    return details


def not_found(group: str, plural: str, name: str) -> StatusError:
    """Return a 404 for an object."""
    message = f"{qualified_resource(group, plural)} {_go_quoted(name)} not found"
    return StatusError(404, "NotFound", message, _details(group, plural, name))


def resource_not_found() -> StatusError:
    """Return a 404 for an unknown resource."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(group: str, plural: str, name: str, message: str = "") -> StatusError:
    """Return a 409 for a name that exists."""
    text = message or f"{qualified_resource(group, plural)} {_go_quoted(name)} already exists"
    return StatusError(409, "AlreadyExists", text, _details(group, plural, name))


def conflict(group: str, kind: str, name: str, why: str) -> StatusError:
    """Return a 409 for a conflict."""
    where = f"{qualified_resource(group, kind)} {_go_quoted(name)}"
    message = f"Operation cannot be fulfilled on {where}: {why}"
    return StatusError(409, "Conflict", message, _details(group, kind, name))


def forbidden(
    group: str, plural: str, name: str, why: str, causes: Sequence[Obj] | None = None
) -> StatusError:
    """Return a 403."""
    subject = qualified_resource(group, plural)
    if name:
        subject = f"{subject} {_go_quoted(name)}"
    message = f"{subject} is forbidden: {why}"
    more = {"causes": list(causes)} if causes else {}
    return StatusError(403, "Forbidden", message, _details(group, plural, name, **more))


def invalid(group: str, kind: str, name: str, errors: Iterable[FieldError]) -> StatusError:
    """Return a 422 with the errors of an object."""
    found = list(errors)
    texts = list(dict.fromkeys(str(error) for error in found))
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    message = f"{qualified_resource(group, kind)} {_go_quoted(name)} is invalid: {text}"
    causes = [error.cause() for error in found]
    return StatusError(422, "Invalid", message, _details(group, kind, name, causes=causes))


def bad_request(message: str) -> StatusError:
    """Return a 400."""
    return StatusError(400, "BadRequest", message)


def unauthorized() -> StatusError:
    """Return a 401."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def verb_not_supported(group: str, plural: str, verb: str) -> StatusError:
    """Return a 405 for a verb that the kind does not have."""
    message = f'{verb} is not supported on resources of kind "{qualified_resource(group, plural)}"'
    return StatusError(405, "MethodNotAllowed", message, _details(group, plural, ""))


def method_not_allowed() -> StatusError:
    """Return a 405."""
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message, {})


def not_acceptable(accepted: str) -> StatusError:
    """Return a 406."""
    message = f"406: Not Acceptable\n\nAvailable representations: {accepted}"
    return StatusError(406, "NotAcceptable", message, {})


def unsupported_media_type(accepted: str) -> StatusError:
    """Return a 415."""
    message = (
        "the body of the request was in an unknown format - accepted media types include: "
        + accepted
    )
    return StatusError(415, "UnsupportedMediaType", message)


def expired(message: str) -> StatusError:
    """Return a 410 for a resource version that is too old."""
    return StatusError(410, "Expired", message)


def too_large_resource_version(asked: int, current: int) -> StatusError:
    """Return a 504 for a resource version of the future."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return StatusError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {asked}, current: {current}",
        {"causes": [cause], "retryAfterSeconds": 1},
        {"Retry-After": "1"},
    )


def too_many_requests(message: str, causes: Sequence[Obj] = ()) -> StatusError:
    """Return a 429."""
    details: Obj = {"causes": list(causes)} if causes else {}
    return StatusError(429, "TooManyRequests", message, details)


def internal_error(message: str) -> StatusError:
    """Return a 500."""
    causes = [{"message": message}]
    return StatusError(
        500, "InternalError", f"Internal error occurred: {message}", {"causes": causes}
    )
