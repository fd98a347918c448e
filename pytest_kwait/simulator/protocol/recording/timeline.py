"""The timeline of a recording as text: one line a change, with the waits and steps of its test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.protocol.recording.files import RecordedLine, Recording

_MAX_FIELDS = 4
"""Fields of a change in a line."""

_MAX_VALUE = 60
_LEFT_OUT = frozenset(
    {
        "containerID",
        "fullyLabeledReplicas",
        "generation",
        "hostIPs",
        "imageID",
        "lastState",
        "managedFields",
        "observedGeneration",
        "podIPs",
        "resourceVersion",
        "terminatingReplicas",
    }
)
"""Fields that say what others say, or change with every other."""

_TIME_ENDINGS = ("Time", "Timestamp", "At")
_EVENTS = "events"
_LEASES = "leases.coordination.k8s.io"


def format_timeline(recording: Recording, end: float) -> Iterator[str]:
    """Yield a line for each change, event, step and verdict up to a time.

    Leases and objects of other namespaces than the test's are left out, but for nodes and volumes.

    Args:
        end: the last time, in seconds since the start of the test.
    """
    own = set(recording.header.namespaces)
    state: dict[tuple[str, str], dict[str, Any]] = {}
    entries: list[tuple[float, str]] = []
    for line in recording.lines:
        if line.at > end:
            break
        if line.type == "WAIT":
            entries += _wait_lines(line, end)
        elif line.type == "STEP":
            entries.append((line.at, f"step {line.text}"))
        elif line.type == "FAILURE":
            entries.append((line.at, f"failure in {line.outcome}: {line.text}"))
        elif line.resource:
            before = state.get((line.resource, line.key))
            if line.type == "DELETED":
                state.pop((line.resource, line.key), None)
            else:
                state[line.resource, line.key] = line.object
            if line.type != "STATE" and _is_shown(line, own):
                text = _describe_change(line, before)
                if text:
                    entries.append((line.at, text))
    # Stable: a wait begins before what happens at the same time.
    entries.sort(key=lambda entry: entry[0])
    for at, text in entries:
        yield f"{at:9.3f}s  {text}"


def _wait_lines(line: RecordedLine, end: float) -> Iterator[tuple[float, str]]:
    name = f"wait for {line.text} to {line.goal}"
    yield line.at, name
    for at, text in line.changes:
        if line.at + at <= end:
            yield line.at + at, f"  {line.text}: {text}"
    if line.outcome != "unfinished" and line.at + line.seconds <= end:
        yield line.at + line.seconds, f"{name}: {line.outcome}"


def _is_shown(line: RecordedLine, own: set[str]) -> bool:
    namespace, slash, _ = line.key.partition("/")
    if slash:
        return not own or namespace in own
    if line.resource == "namespaces":
        return not own or line.key in own
    return line.resource != _LEASES


def _describe_change(line: RecordedLine, before: dict[str, Any] | None) -> str:
    """Return a change in one line; empty if it only has times and versions."""
    if line.resource == _EVENTS:
        return "" if line.type == "DELETED" else _describe_event(line.object)
    name = f"{line.resource.partition('.')[0]}/{line.key.rpartition('/')[2]}"
    if line.type == "DELETED":
        return f"{name} deleted"
    if before is None:
        return f"{name} created"
    fields = list(_differences(before, line.object, ""))
    if not fields:
        return ""
    more = len(fields) - _MAX_FIELDS
    fields_text = "; ".join(fields[:_MAX_FIELDS])
    return f"{name} {fields_text}" + (f"; and {more} more" if more > 0 else "")


class EventFacts(NamedTuple):
    """What an event says.

    Args:
        type: `Normal` or `Warning`.
        times: how often it occurred.
        subject: the object that it is about, as `pod/web`.
        message: its message in one line.
    """

    type: str
    reason: str
    times: int
    subject: str
    message: str


def read_event(event: dict[str, Any]) -> EventFacts:
    """Return what a recorded event says."""
    about = event.get("involvedObject") or event.get("regarding") or {}
    return EventFacts(
        str(event.get("type")),
        str(event.get("reason")),
        (event.get("series") or {}).get("count") or event.get("count") or 1,
        f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}",
        " ".join(str(event.get("message") or event.get("note") or "").split()),
    )


def _describe_event(event: dict[str, Any]) -> str:
    recorded_event = read_event(event)
    times = f" (x{recorded_event.times})" if recorded_event.times > 1 else ""
    return (
        f"event {recorded_event.type} {recorded_event.reason}{times} of {recorded_event.subject}: "
        f"{recorded_event.message}"
    )


def _differences(before: Any, after: Any, path: str) -> Iterator[str]:
    """Yield the fields that differ, as `status.phase: Pending → Running`."""
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*after, *(key for key in before if key not in after)]:
            if key in _LEFT_OUT or key.endswith(_TIME_ENDINGS):
                continue
            yield from _differences(
                before.get(key), after.get(key), f"{path}.{key}" if path else key
            )
        return
    if _is_list_of_objects(before) and _is_list_of_objects(after):
        yield from _list_differences(before or [], after or [], path)
        return
    yield f"{path}: {_shorten(before)} → {_shorten(after)}"


def _is_list_of_objects(value: Any) -> bool:
    return value is None or (
        isinstance(value, list) and all(isinstance(element, dict) for element in value)
    )


def _list_differences(
    before: list[dict[str, Any]], after: list[dict[str, Any]], path: str
) -> Iterator[str]:
    """Compare lists of conditions, container statuses and the like by their names."""
    known, new_elements = _label_elements(before), _label_elements(after)
    for label, new in new_elements.items():
        old = known.get(label)
        if old is None and "status" in new:
            yield f"{path}[{label}]: {_shorten(new['status'])}"
        else:
            yield from _differences(old or {}, new, f"{path}[{label}]")
    for label in known:
        if label not in new_elements:
            yield f"{path}[{label}]: removed"


def _label_elements(elements: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return elements by type or name, else by position; the first of each."""
    labelled: dict[str, dict[str, Any]] = {}
    for position, element in enumerate(elements):
        label = next(
            (str(element[key]) for key in ("type", "name") if key in element), str(position)
        )
        labelled.setdefault(label, element)
    return labelled


def _shorten(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, dict):
        # The state of a container is best told by its reason and exit code.
        texts = [str(value[key]) for key in ("reason", "exitCode") if key in value]
        value = " ".join(texts) or ", ".join(map(str, value)) or "empty"
    text = " ".join(str(value).split())
    return text if len(text) <= _MAX_VALUE else f"{text[: _MAX_VALUE - 1]}…"
