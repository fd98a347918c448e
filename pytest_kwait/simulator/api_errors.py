"""The API's `Status` failures, with the server's reasons and messages.

Source: k8s.io/apimachinery pkg/api/errors/errors.go.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.field_errors import aggregate_errors, too_many_errors
from pytest_kwait.apimachinery.go_values import quote_go

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pytest_kwait.apimachinery.field_errors import FieldError
    from pytest_kwait.simulator.objects import Obj

_MAX_FIELD_ERRORS = 1000
"""The errors of one object in a response; upstream has no limit."""


class StatusError(Exception):
    """The failure of an API request.

    Args:
        code: the HTTP status.
        reason: the machine-readable reason, for example `NotFound`; may be empty.
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


@contextmanager
def ignore_not_found() -> Iterator[None]:
    """Suppress the error of an object that does not exist."""
    try:
        yield
    except StatusError as error:
        if error.reason != "NotFound":
            raise


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
    message = f"{qualified_resource(group, plural)} {quote_go(name)} not found"
    return StatusError(404, "NotFound", message, _details(group, plural, name))


def resource_not_found() -> StatusError:
    """Return a 404 for an unknown resource."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(group: str, plural: str, name: str, message: str = "") -> StatusError:
    """Return a 409 for a name that exists."""
    text = message or f"{qualified_resource(group, plural)} {quote_go(name)} already exists"
    return StatusError(409, "AlreadyExists", text, _details(group, plural, name))


def conflict(group: str, kind: str, name: str, why: str) -> StatusError:
    """Return a 409 for a conflict."""
    where = f"{qualified_resource(group, kind)} {quote_go(name)}"
    message = f"Operation cannot be fulfilled on {where}: {why}"
    return StatusError(409, "Conflict", message, _details(group, kind, name))


def object_modified(group: str, plural: str, name: str) -> StatusError:
    """Return a 409 for an object that was changed since it was read."""
    why = (
        "the object has been modified; please apply your changes to the latest version and try "
        "again"
    )
    return conflict(group, plural, name, why)


def forbidden(
    group: str, plural: str, name: str, why: str, causes: Sequence[Obj] | None = None
) -> StatusError:
    """Return a 403."""
    subject = qualified_resource(group, plural)
    if name:
        subject = f"{subject} {quote_go(name)}"
    message = f"{subject} is forbidden: {why}"
    more = {"causes": list(causes)} if causes else {}
    return StatusError(403, "Forbidden", message, _details(group, plural, name, **more))


def invalid(group: str, kind: str, name: str, errors: Iterable[FieldError]) -> StatusError:
    """Return a 422 with the errors of an object, the first `_MAX_FIELD_ERRORS` of them."""
    field_errors = list(errors)
    if len(field_errors) > _MAX_FIELD_ERRORS:
        more = len(field_errors) - _MAX_FIELD_ERRORS
        field_errors[_MAX_FIELD_ERRORS:] = [too_many_errors(more)]
    text = aggregate_errors(field_errors)
    message = f"{qualified_resource(group, kind)} {quote_go(name)} is invalid: {text}"
    causes = [error.cause() for error in field_errors]
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


def too_large_resource_version(requested: int, current: int) -> StatusError:
    """Return a 504 for a resource version of the future."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return StatusError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {requested}, current: {current}",
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
