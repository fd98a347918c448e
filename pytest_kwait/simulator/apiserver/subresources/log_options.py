"""What is asked of a container's log.

Source: k8s.io/api core/v1 PodLogOptions, k8s.io/kubernetes pkg/apis/core/validation/validation.go.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import bad_request, forbidden_field, invalid, invalid_value
from pytest_kwait.simulator.apiserver.subresources.connect import is_flag_set

if TYPE_CHECKING:
    from pytest_kwait.simulator.apiserver.request import ApiRequest

__all__ = ["LogOptions", "read_log_options"]

_RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_TIME_LAYOUT = "2006-01-02T15:04:05Z07:00"


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The parameters of a request for a log.

    Args:
        container: which; empty for the only one.
        follow: whether what comes later is wanted as well.
        previous: whether the instance before is meant.
        timestamps: whether each line says when it was written.
        since_seconds: how old lines may be.
        since: the time of the oldest line wanted, seconds since the epoch.
        tail: how many of the last lines.
        limit: how many bytes at most.
    """

    container: str
    follow: bool
    previous: bool
    timestamps: bool
    since_seconds: int | None
    since: float | None
    tail: int | None
    limit: int | None


def read_log_options(request: ApiRequest, pod: str) -> LogOptions:
    """The options that the query gives.

    Raises:
        StatusError: 400 for what cannot be read, 422 for what cannot be meant.
    """
    options = LogOptions(
        container=request.query.get("container", ""),
        follow=is_flag_set(request, "follow"),
        previous=is_flag_set(request, "previous"),
        timestamps=is_flag_set(request, "timestamps"),
        since_seconds=request.number("sinceSeconds"),
        since=_parse_time(request.query.get("sinceTime", "")),
        tail=request.number("tailLines"),
        limit=request.number("limitBytes"),
    )
    errors = []
    if options.tail is not None and options.tail < 0:
        why = "must be greater than or equal to 0"
        errors.append(invalid_value("tailLines", options.tail, why))
    if options.limit is not None and options.limit < 1:
        errors.append(invalid_value("limitBytes", options.limit, "must be greater than 0"))
    if options.since_seconds is not None:
        if options.since is not None:
            why = "at most one of `sinceTime` or `sinceSeconds` may be specified"
            errors.append(forbidden_field("[]", why))
        elif options.since_seconds < 1:
            value = options.since_seconds
            errors.append(invalid_value("sinceSeconds", value, "must be greater than 0"))
    if request.query.get("stream", "All") != "All" or "stream" in request.query:
        errors.append(forbidden_field("stream", "may not be specified"))
    if errors:
        raise invalid("", "PodLogOptions", pod, errors)
    return options


def _parse_time(text: str) -> float | None:
    if not text:
        return None
    if _RFC3339.fullmatch(text):
        try:
            return datetime.fromisoformat(text).timestamp()
        except ValueError:
            raise bad_request(f'parsing time "{text}": day out of range') from None
    raise bad_request(f'parsing time "{text}" as "{_TIME_LAYOUT}": cannot parse "{text}" as "2006"')
