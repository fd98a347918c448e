"""Any request of one client, and those that are answered with one object."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_kwait.client.errors import make_unreadable_error, parse_warnings
from pytest_kwait.client.responses import Object, Response, decode_object
from pytest_kwait.client.transport import JSON, Transport
from pytest_kwait.client.write_options import encode_json
from pytest_kwait.clock import SYSTEM_CLOCK, Clock, Deadline

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kubernetes.client import ApiClient

__all__ = ["Requests"]

_log = logging.getLogger("pytest_kwait.client")


class Requests:
    """What all verbs are made of.

    Args:
        client: the official client; its address, TLS, proxy, credentials and headers are used.
        clock: the time of Retry-After dates.
    """

    def __init__(self, client: ApiClient, clock: Clock = SYSTEM_CLOCK) -> None:
        self.clock = clock
        self.transport = Transport(client, clock)

    def close(self) -> None:
        """Close the connections that are kept for further requests."""
        self.transport.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: object = None,
        content_type: str | None = None,
        accept: str = JSON,
        deadline: Deadline,
    ) -> Response:
        """Send any request and return the whole answer.

        Args:
            method: the HTTP method.
            path: the path from the server's address on.
            query: parameters; those that are None are left out.
            body: sent as it is if bytes, as JSON otherwise; None for no body.
            content_type: of the body; JSON if it was encoded here.
            accept: the wanted content type.
            deadline: when the answer must be complete.

        Raises:
            ApiError: an answer of status 300 or more, or none.
            DeadlineExceeded: the answer was not complete in time.
            InvalidArgument: a body that cannot be JSON.
        """
        data = None
        if isinstance(body, bytes):
            data = body
        elif body is not None:
            data = encode_json(body)
            content_type = content_type or JSON
        answer = self.transport.send(
            method,
            path,
            query=query,
            body=data,
            content_type=content_type,
            accept=accept,
            deadline=deadline,
        )
        for text in parse_warnings(answer.headers):
            _log.warning("%s %s: %s", method, path, text)
        return answer

    def _object(self, method: str, path: str, **arguments: Any) -> Object:
        answer = self.request(method, path, **arguments)
        try:
            return decode_object(answer.data)
        except msgspec.DecodeError as error:
            raise make_unreadable_error(
                method, path, answer.status, answer.data, "an object as JSON"
            ) from error
