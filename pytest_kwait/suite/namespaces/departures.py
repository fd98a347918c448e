"""Namespaces on their way out: awaited at the end of a run, and what holds those that stay.

The server deletes them beside the tests. Only a run's last few are still there at its end, or
those that something holds: then it is told which object that is, and which finalizer.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.durations import format_duration
from pytest_kwait.client.resource import NAMESPACES
from pytest_kwait.client.responses import decode_object
from pytest_kwait.client.session import Session
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.retry import request_with_retry
from pytest_kwait.errors import ApiError, InvalidArgument, KwaitError
from pytest_kwait.framework.cluster.namespaces_part import describe_remaining
from pytest_kwait.suite.cleanup.owned_objects import LABEL_RUN, run_label_value
from pytest_kwait.wait.errors import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sized

    from kubernetes.client import ApiClient

__all__ = ["NamespaceDeletions"]

MAX_SHOWN = 5
"""How many namespaces, and how many objects in each, are told by name."""

_POLL_INTERVAL = 0.5
_SLOW_POLL_INTERVAL = 2.0
_REPORT_AFTER = 1.0
"""Seconds after which it is said that the run waits."""

_REQUEST_TIMEOUT = 15.0
"""Seconds that finding out what holds them may take."""

_KIND_LEFT = re.compile(r"([^\s.,]+)\.(\S*) has \d+ resource instances")


class NamespaceDeletions:
    """The namespaces of one run that were asked to go.

    Args:
        client: the client.
        run: the id of the run.
        going: their UIDs by name.
    """

    def __init__(self, client: ApiClient, run: str, going: Mapping[str, str]) -> None:
        self._session = Session.of(client)
        self._run = run
        self._going = dict(going)
        self._listed = True

    def wait(self, limit: float, tell: Callable[[str], object]) -> list[str]:
        """Return once they are gone, or the limit has come.

        Args:
            limit: seconds that it may take.
            tell: called with one line if it takes longer than a moment.

        Returns:
            what to say of those that are still there, a line each; nothing if there are none.
        """
        clock = self._session.clock
        started = clock.monotonic()
        deadline = Deadline.after(limit, clock)
        told = False
        try:
            left = self._left(deadline)
            while left and deadline.remaining > _POLL_INTERVAL:
                waited = clock.monotonic() - started
                if not told and waited >= _REPORT_AFTER:
                    tell(f"waiting up to {format_duration(limit)} until {_format_count(left)} gone")
                    told = True
                clock.sleep(
                    _POLL_INTERVAL if waited < 10 * _SLOW_POLL_INTERVAL else _SLOW_POLL_INTERVAL
                )
                try:
                    left = self._left(deadline)
                except (ApiError, DeadlineExceeded):
                    # What was seen last still holds where the limit came while we asked again.
                    if deadline.remaining > 0:
                        raise
        except (ApiError, DeadlineExceeded) as error:
            return [f"whether {_format_count(self._going)} gone cannot be seen: {error}"]
        if not left:
            return []
        lines = [
            f"{_format_count(left)} not gone after {format_duration(limit)}; the server goes on trying:"
        ]
        asking = Deadline.after(_REQUEST_TIMEOUT, clock)
        for namespace in left[:MAX_SHOWN]:
            name = namespace["metadata"]["name"]
            lines.append(f"  {name}: {'; '.join(self._holders(namespace, asking))}")
        if len(left) > MAX_SHOWN:
            lines.append(f"  and {len(left) - MAX_SHOWN} more")
        return lines

    def _left(self, deadline: Deadline) -> list[dict[str, Any]]:
        """Return those that are still there, whatever of the same names came after them."""
        there = self._by_label(deadline) if self._listed else None
        if there is None:
            self._listed = False
            there = list(filter(None, (self._one(name, deadline) for name in self._going)))
        left = [
            each
            for each in there
            if self._going.get(each["metadata"]["name"]) == each["metadata"]["uid"]
        ]
        self._going = {each["metadata"]["name"]: each["metadata"]["uid"] for each in left}
        return left

    def _by_label(self, deadline: Deadline) -> list[dict[str, Any]] | None:
        """Return all of the run in one request; None if they are not shown."""
        query = {"labelSelector": f"{LABEL_RUN}={run_label_value(self._run)}"}
        try:
            answer = request_with_retry(
                lambda deadline: self._session.request(
                    "GET", NAMESPACES.path(None), query=query, deadline=deadline
                ),
                deadline,
            )
        except ApiError as error:
            if error.status == 403:
                return None
            raise
        return decode_object(answer.data).get("items") or []

    def _one(self, name: str, deadline: Deadline) -> dict[str, Any] | None:
        try:
            return request_with_retry(
                lambda deadline: self._session.get(NAMESPACES, name, deadline=deadline), deadline
            )
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def _holders(self, namespace: dict[str, Any], deadline: Deadline) -> Iterator[str]:
        """Say what holds a namespace: objects with their finalizers, else what its status says."""
        name = namespace["metadata"]["name"]
        found: list[str] = []
        for plural, group in _remaining_kinds(namespace):
            try:
                found += self._objects(f"{plural}.{group}" if group else plural, name, deadline)
            except (KwaitError, DeadlineExceeded):
                # Its status has the kind and the number, and is told below.
                continue
        yield from found[:MAX_SHOWN]
        if len(found) > MAX_SHOWN:
            yield f"and {len(found) - MAX_SHOWN} more objects"
        if not found or namespace["metadata"].get("finalizers") or _has_deletion_problem(namespace):
            yield describe_remaining(namespace)

    def _objects(self, kind: str, namespace: str, deadline: Deadline) -> list[str]:
        def ask(deadline: Deadline) -> list[dict[str, Any]]:
            resource = self._session.resolve(kind, deadline=deadline)
            if not resource.namespaced:
                raise InvalidArgument("kind", kind, "a kind that is in namespaces")
            listed = self._session.list(resource, namespace, deadline=deadline)
            return [{**each.object, "kind": resource.kind} for each in listed.items]

        return [_finalizers_of(each) for each in request_with_retry(ask, deadline)]


def _finalizers_of(obj: Mapping[str, Any]) -> str:
    metadata = obj["metadata"]
    title = f"{obj['kind'].lower()}/{metadata['name']}"
    finalizers = [str(each) for each in metadata.get("finalizers") or ()]
    if finalizers:
        noun = "finalizer" if len(finalizers) == 1 else "finalizers"
        return f"{title} is held by {noun} {', '.join(finalizers)}"
    if not metadata.get("deletionTimestamp"):
        return f"{title} is not being deleted"
    return f"{title} is being deleted"


def _remaining_kinds(namespace: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return plural and group of what is left in a namespace.

    Source: kube-controller-manager, namespace/deletion/status_condition_utils.go.
    """
    for condition in (namespace.get("status") or {}).get("conditions") or ():
        if (
            condition.get("type") == "NamespaceContentRemaining"
            and condition.get("status") == "True"
        ):
            return _KIND_LEFT.findall(condition.get("message") or "")
    return []


def _has_deletion_problem(namespace: Mapping[str, Any]) -> bool:
    return any(
        str(each.get("type")).endswith("Failure") and each.get("status") == "True"
        for each in (namespace.get("status") or {}).get("conditions") or ()
    )


def _format_count(things: Sized) -> str:
    number = len(things)
    return "1 namespace is" if number == 1 else f"{number} namespaces are"
