"""How long a client gives its request, by the `timeout` of the query.

Source: k8s.io/apiserver pkg/endpoints/filters/request_deadline.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import bad_request

if TYPE_CHECKING:
    from pytest_kwait.simulator.apiserver.request import ApiRequest

__all__ = ["check_timeout"]


def check_timeout(request: ApiRequest) -> None:
    """Hold the time to what Go takes for one; requests are answered long before it is over.

    Raises:
        StatusError: 400, it is none.
    """
    from pytest_kwait.scheduler.command.go_values import parse_duration

    text = request.query["timeout"]
    if not text or request.flag("watch"):
        return
    try:
        parse_duration(text)
    except ValueError as error:
        raise bad_request(f"invalid timeout specified in the request URL - {error}") from None
