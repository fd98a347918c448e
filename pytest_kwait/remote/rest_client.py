"""Requests of components to a real API server, retried as client-go does.

They block the event loop on purpose: between two events nothing else runs, as in the embedded
cluster, where a write is a function call.

Source: client-go rest/request.go, rest/with_retry.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pytest_kwait.client.responses import decode_object
from pytest_kwait.clock import SYSTEM_CLOCK, Clock, Deadline
from pytest_kwait.errors import ApiError
from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.wait import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kwait.client.responses import Response
    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.simulator.objects import Obj

_TIMEOUT = 30.0
"""Seconds for the answer to a request."""
_RETRIES = 10
_MAX_PAUSE = 5.0
"""Seconds between retries, whatever the server's `Retry-After`."""


class RESTClient:
    """The requests of components; errors are those that components know.

    Args:
        session: the session of one server.
        clock: the time of retries.
    """

    def __init__(self, session: ApiSession, clock: Clock = SYSTEM_CLOCK) -> None:
        self.session = session
        # Our components use deprecated kinds on purpose, as upstream's.
        session.logs_warnings = False
        self._clock = clock

    def request(
        self,
        method: str,
        path: str,
        body: Obj | None = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str | None = None,
    ) -> Obj:
        """Send a request and return the answer, empty unless it is an object.

        Args:
            content_type: of the body; JSON by default.

        Raises:
            StatusError: the server refused, or cannot be reached (503).
        """
        for remaining_tries in reversed(range(_RETRIES)):
            try:
                return _decode(self._send(method, path, body, query, content_type))
            except ApiError as error:
                if not remaining_tries or error.retry_after is None or not _is_busy(error):
                    raise make_status_error(error) from error
                self._clock.sleep(min(error.retry_after, _MAX_PAUSE))
            except DeadlineExceeded as error:
                raise StatusError(503, "ServiceUnavailable", str(error)) from error
        raise AssertionError("the last try returns or raises")

    def _send(
        self,
        method: str,
        path: str,
        body: Obj | None,
        query: Mapping[str, str] | None,
        content_type: str | None,
    ) -> Response:
        return self.session.request(
            method,
            path,
            query=query,
            body=body,
            content_type=content_type,
            deadline=Deadline.after(_TIMEOUT, self._clock),
        )

    def close(self) -> None:
        """Close idle connections."""
        self.session.close()


def make_status_error(error: ApiError) -> StatusError:
    """Return an error of a request as one that components know."""
    if not error.status:
        return StatusError(503, "ServiceUnavailable", error.message)
    return StatusError(error.status, error.reason, error.message, error.body.get("details"))


def _is_busy(error: ApiError) -> bool:
    return error.status == 429 or error.status >= 500


def _decode(answer: Response) -> Obj:
    try:
        return decode_object(answer.data)
    except msgspec.DecodeError:
        return {}
