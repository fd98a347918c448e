"""The journal of a crashed process: namespaces of its test, and its unfinished waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import Deadline
from pytest_kwait.clusters.provider import connect
from pytest_kwait.engine.failure.redaction import make_redactor
from pytest_kwait.errors import KwaitError
from pytest_kwait.suite.artifacts.dump import dump_namespaces
from pytest_kwait.suite.report.records import read_entries

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pytest_kwait.engine.active_waits import ActiveWait
    from pytest_kwait.suite.artifacts.folder import ArtifactFolder
    from pytest_kwait.suite.report.records import NamespaceUse, WaitStarted

UNFINISHED = "unfinished"
"""The outcome of waits that were active when their process died, as in reports."""


class CrashJournal:
    """The journal of a crashed process.

    Args:
        places: the namespaces that its tests used and had not left.
        begun: its active waits.
    """

    def __init__(
        self, places: Iterable[NamespaceUse] = (), begun: Iterable[WaitStarted] = ()
    ) -> None:
        self.places = tuple(places)
        self.begun = tuple(begun)

    def waits(self, test: str, now: float) -> list[dict[str, Any]]:
        """Return the active waits of a test, as evidence.

        Args:
            test: its id.
            now: seconds since the epoch.
        """
        return [
            _describe_wait(
                active_wait.subject, active_wait.goal, max(now - active_wait.started, 0.0)
            )
            for active_wait in self.begun
            if active_wait.test == test
        ]


def read_crash_journal(path: Path) -> CrashJournal:
    """Return the journal of a process; empty if it could not record."""
    places: dict[str, NamespaceUse] = {}
    begun: dict[str, WaitStarted] = {}
    try:
        for entry in read_entries(path):
            if entry.place is not None:
                if entry.place.left:
                    places.pop(entry.place.namespace, None)
                else:
                    places[entry.place.namespace] = entry.place
            if entry.begun is not None:
                begun[entry.begun.id] = entry.begun
            if entry.wait is not None:
                begun.pop(entry.wait.id, None)
    except OSError:
        # The worker ran on another machine.
        return CrashJournal()
    return CrashJournal(places.values(), begun.values())


def describe_pending_waits(waits: Iterable[ActiveWait]) -> list[dict[str, Any]]:
    """Return the active waits of this process, as evidence."""
    return [
        _describe_wait(
            active_wait.hide(active_wait.subject),
            active_wait.hide(active_wait.goal),
            active_wait.deadline.clock.monotonic() - active_wait.started,
            active_wait.hide(active_wait.seen),
        )
        for active_wait in waits
    ]


def dump_crashed_namespaces(
    places: Iterable[NamespaceUse], files: ArtifactFolder, limit: float
) -> None:
    """Dump the namespaces of a crashed process into a folder; records errors of the cluster.

    Args:
        places: the namespaces.
        files: the folder; problems are recorded there.
        limit: seconds.
    """
    deadline = Deadline.after(limit)
    clusters: dict[tuple[str, str | None, str], list[str]] = {}
    for namespace_use in places:
        cluster = (namespace_use.kubeconfig, namespace_use.context, namespace_use.provider)
        clusters.setdefault(cluster, []).append(namespace_use.namespace)
    for (kubeconfig, context, provider), names in clusters.items():
        try:
            client = connect(kubeconfig, context, provider).client()
            try:
                files.redact = make_redactor(ApiSession.of(client).credentials())
                dump_namespaces(client, names, files, deadline)
            finally:
                client.close()  # type: ignore[no-untyped-call] # the official client has no types here
        except KwaitError as error:
            files.problem(f"namespaces {', '.join(names)} are left out: {error}")


def _describe_wait(subject: str, goal: str, elapsed: float, reason: str = "") -> dict[str, Any]:
    return {
        "error": None,
        "subject": subject,
        "goal": goal,
        "outcome": UNFINISHED,
        "reason": reason or None,
        "elapsed_seconds": round(elapsed, 3),
    }
