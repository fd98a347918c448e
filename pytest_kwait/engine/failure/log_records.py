"""Records of a program's log: those about an object, and requests that the API server refused.

A record is a line with the traceback that follows it. Formats are those of Python's logging, kopf,
klog, zap and JSON.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

RECORDS = 3
"""Maximum number of different records of one log."""

REFUSALS = 3
"""Maximum number of different refusals of one log."""

_LENGTH = 1000
"""Maximum characters of a record's text, the middle of which is cut."""

TELLING = re.compile(
    r"\b(\w*error|fatal|panic|\w*exception|traceback|denied|refused|forbidden|cannot|failed)\b",
    re.IGNORECASE,
)
"""A line that names an error."""

_REFUSAL = re.compile(
    r'[\w./-]+(?: "[^"]*")? is forbidden: User "[^"]*" cannot \S+ (?:resource|path) "[^"]*"'
    r'(?: in API group "[^"]*")?(?: in the namespace "(?P<namespace>[^"]*)"| at the cluster scope)?'
)
"""The API server's message. Source: apiserver/pkg/endpoints/handlers/responsewriters/errors.go."""

_REFUSED_LINE = re.compile(r"\bforbidden\b|\(403\)|\b(?:status|code)\W{1,5}403\b", re.IGNORECASE)
"""A line about a refused request, in other words."""

_TIME = re.compile(
    r"\[?(?:ts=|time=)?\"?\d{4}[-/]\d\d[-/]\d\d[T ][\d:.,]+(?:Z|[+-]\d\d:?\d\d)?\"?\]?\s*"
)
"""The time at the start of a line."""

_START = re.compile(rf"(?:{_TIME.pattern})|[DIWEF]\d{{4}} [\d:.]+ |\{{\"")
"""The start of a record, in logs of a known format."""

_FURTHER = re.compile(
    r"\s|$|Traceback \(most recent call last\)|Caused by: |During handling of the above exception"
    r"|The above exception was the direct cause"
)
"""The start of a line that belongs to the record before it."""

_TRACEBACK = "Traceback (most recent call last)"
_BODY = "HTTP response body: "
"""The lead of the API server's answer in errors of the official Python client."""

_PADDING = re.compile(r" +(?=\])")

_MESSAGES = ("msg", "message", "event")
_ERRORS = ("error", "err", "exception", "exc_info")
_LEVELS = ("level", "severity", "levelname")
_ERROR_LEVEL = re.compile(r"\b(?:error|warn(?:ing)?|critical|fatal)\b|^[EWF]\d{4} ", re.IGNORECASE)


def find_refusals(
    text: str, namespace: str | None = None, *, in_words: bool = True
) -> tuple[str, ...]:
    """Return the last different refusals of requests in a log.

    Args:
        namespace: the namespace of requests, besides those of the cluster's scope; None for all.
        in_words: whether lines about refusals in other words count, if there are no others.
    """
    # Most programs print the message within JSON.
    lines = text.replace('\\"', '"').splitlines()
    found = [
        match[0]
        for line in lines
        for match in _REFUSAL.finditer(line)
        if namespace is None or match["namespace"] in (None, namespace)
    ]
    if not found and in_words:
        found = [line.strip() for line in lines if _REFUSED_LINE.search(line)]
    return _last_different(found, REFUSALS)


def find_records(text: str, is_about: Callable[[str], object]) -> tuple[str, ...]:
    """Return the last different records of an object, in one line each; only errors if there are.

    Args:
        is_about: tells whether a record is about the object.
    """
    records = [lines for lines in _split(text) if is_about("\n".join(lines))]
    failed = [lines for lines in records if _is_error(lines)]
    return _last_different(map(_describe, failed or records), RECORDS)


def _last_different(texts: Iterable[str], count: int) -> tuple[str, ...]:
    last = list(dict.fromkeys(reversed(list(texts))))[:count]
    return tuple(reversed(last))


def _split(text: str) -> Iterator[Sequence[str]]:
    """Yield the lines of each record; in a log of a known format all lines without its start."""
    lines = text.splitlines()
    is_formatted = any(map(_START.match, lines))
    record: list[str] = []
    has_traceback = False
    for line in lines:
        is_further = bool(_FURTHER.match(line))
        begins = _START.match(line) if is_formatted else not is_further and not has_traceback
        if begins and record:
            yield record
            record = []
        record.append(line)
        # It ends with the exception.
        has_traceback = is_further and (has_traceback or line.startswith(_TRACEBACK))
    if record:
        yield record


def _is_error(lines: Sequence[str]) -> bool:
    head, fields = _parse(lines[0])
    level = next((str(fields[key]) for key in _LEVELS if key in fields), head)
    return bool(
        _ERROR_LEVEL.search(level)
        or any(fields.get(key) for key in _ERRORS)
        or TELLING.search(head)
        or any(line.startswith(_TRACEBACK) for line in lines)
    )


def _describe(lines: Sequence[str]) -> str:
    """Return what a record says, and the error that it carries, in one line."""
    if lines[0].startswith(_TRACEBACK):
        lines = ("", *lines)
    head, fields = _parse(lines[0])
    error = next((str(fields[key]) for key in _ERRORS if fields.get(key)), "")
    cause = _describe_error(error.splitlines()) or _describe_error(lines[1:])
    said = _PADDING.sub("", " ".join(head.split()))
    if cause and cause not in said:
        end = "" if not said or said.endswith((".", ":", "!", ")")) else ":"
        said = f"{said}{end} {cause}".strip()
    if len(said) > _LENGTH:
        half = _LENGTH // 2
        said = f"{said[:half]} ... {said[-half:]}"
    return said


def _parse(line: str) -> tuple[str, dict[str, Any]]:
    """Return what a line says without its time, and the fields of its JSON."""
    start = line.find("{")
    head, fields = line, {}
    if start >= 0:
        try:
            value = json.loads(line[start:])
        except ValueError:
            value = None
        if isinstance(value, dict):
            head, fields = line[:start], value
    time = _TIME.match(head)
    if time is not None:
        head = head[time.end() :]
    if fields and not head.strip():
        level = next((str(fields[key]) for key in _LEVELS if key in fields), "")
        message = next((str(fields[key]) for key in _MESSAGES if key in fields), "")
        head = " ".join(filter(None, (level.upper(), message)))
    return head, fields


def _describe_error(lines: Sequence[str]) -> str:
    """Return the API server's message, or the error at the end of a traceback; may be empty."""
    starts = [place for place, line in enumerate(lines) if line.startswith(_TRACEBACK)]
    rest = lines[starts[-1] + 1 :] if starts else lines
    said = [line.strip() for line in rest if line.strip() and (not starts or not line[0].isspace())]
    message = next(filter(None, map(_read_message, lines)), "")
    if not starts and message:
        return message
    return " ".join(filter(None, (*said[:1], message)))


def _read_message(line: str) -> str:
    """Return the message of the API server's answer; empty for another line."""
    if not line.startswith(_BODY):
        return ""
    try:
        return str(json.loads(line.removeprefix(_BODY))["message"])
    except (ValueError, TypeError, KeyError):
        return ""
