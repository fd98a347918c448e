"""Dumps: what namespaces, or the cluster itself, hold at a moment, gathered at once into a folder.

Bounded in time by the caller and in size by the folder; whatever goes wrong is a line in the
folder's `problems.txt`.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Self

from pytest_kwait.client.resource import DAEMON_SETS, DEPLOYMENTS, EVENTS, NODES, PODS, Resource
from pytest_kwait.client.session import Session
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.failure.redaction import make_redactor
from pytest_kwait.errors import KwaitError
from pytest_kwait.suite.artifacts.dump import NamespaceDump, is_failing, list_container_runs
from pytest_kwait.suite.artifacts.folder import ArtifactFolder, create_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from kubernetes.client import ApiClient

    from pytest_kwait.clusters.provider import Cluster

__all__ = ["dump_cluster", "dump_namespaces", "dump_unready_cluster"]

CLUSTER_DUMP_TIMEOUT = 30.0
"""Seconds that gathering may take for a cluster that is not ready."""

WORKERS = 8
"""Requests at a time."""

MAX_LOGS = 100
"""Logs of one namespace that are written at most, those of failing containers first."""

SYSTEM_NAMESPACE = "kube-system"

# The events about nodes are in the namespace that is meant where none is named.
_NODE_EVENTS_NAMESPACE = "default"


def dump_cluster(client: ApiClient, folder: Path, deadline: Deadline) -> list[str]:
    """Write what is known of a cluster's own state into a folder.

    Nodes, the pods of the control plane and what makes them, events, and the logs of pods there
    that are not ready.

    Args:
        client: the client to ask with.
        folder: where to; made if it is not there.
        deadline: when it must be over; what is not there by then is left out.

    Returns:
        why nothing could be written, as of a full disk; empty if it could. What the cluster did
        not tell is in the folder's `problems.txt`.
    """
    session = Session.of(client)
    files = ArtifactFolder(folder, make_redactor(session.credentials()))
    system = NamespaceDump(session, SYSTEM_NAMESPACE, files, SYSTEM_NAMESPACE, deadline)
    with _WorkerPool() as crew:
        nodes = NamespaceDump(session, None, files, "", deadline)
        crew.start(nodes.objects, NODES)
        pods = crew.start(system.objects, PODS)
        crew.start(system.events)
        crew.start(
            NamespaceDump(
                session, _NODE_EVENTS_NAMESPACE, files, _NODE_EVENTS_NAMESPACE, deadline
            ).events
        )
        for resource in (DAEMON_SETS, DEPLOYMENTS):
            crew.start(system.objects, resource)
        failing = [pod for pod in pods() if is_failing(pod)]
        _start_logs(crew, system, failing, files, SYSTEM_NAMESPACE)
    files.finish()
    return [files.trouble] if files.trouble else []


def dump_unready_cluster(cluster: Cluster, artifacts: Path | None) -> str:
    """Write what is known of a cluster that is not ready among a run's artifacts.

    Args:
        cluster: which one.
        artifacts: the folder of the run's artifacts; None where nobody wants any.

    Returns:
        a line that says where it is, or why it is nowhere; empty where nobody wants any.
    """
    if artifacts is None:
        return ""
    try:
        folder = create_folder(artifacts, "cluster")
        client = cluster.client()
        try:
            troubles = dump_cluster(client, folder, Deadline.after(CLUSTER_DUMP_TIMEOUT))
        finally:
            client.close()  # type: ignore[no-untyped-call] # the official client has no types here
    except OSError as error:
        troubles = [str(error)]
    if troubles:
        return f"what the cluster is like could not be written: {troubles[0]}"
    return f"what the cluster is like: {folder}"


def dump_namespaces(
    client: ApiClient, namespaces: Sequence[str], files: ArtifactFolder, deadline: Deadline
) -> None:
    """Write what is in namespaces into a folder, each into one of its own name.

    The objects of every kind that the server lists, events, and the logs of all containers with
    those of their runs before.

    Args:
        client: the client to ask with.
        namespaces: their names.
        files: where to; problems are noted there.
        deadline: when it must be over; what is not there by then is left out.
    """
    session = Session.of(client)
    with _WorkerPool() as crew:
        snapshots = {
            name: NamespaceDump(session, name, files, name, deadline) for name in namespaces
        }
        pods = {name: crew.start(each.objects, PODS) for name, each in snapshots.items()}
        kinds = crew.start(_list_other_kinds, session, files, deadline)
        for each in snapshots.values():
            crew.start(each.events)
            crew.start(each.write_namespace)
        for name, each in snapshots.items():
            _start_logs(crew, each, pods[name](), files, name)
        for resource in kinds():
            for each in snapshots.values():
                crew.start(each.objects, resource)


class _WorkerPool:
    """Threads that do tasks in the order in which they are started; left once all are done."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="kwait-artifacts")
        self._results: list[Callable[[], Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # What interrupts this must not wait for what has not even begun.
        self._pool.shutdown(cancel_futures=kind is not None)
        if kind is None:
            for result in self._results:
                result()

    def start(self, task: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
        """Have a task done; return what waits for its result."""
        result = self._pool.submit(task, *arguments).result
        self._results.append(result)
        return result


def _start_logs(
    crew: _WorkerPool,
    snapshot: NamespaceDump,
    pods: Sequence[dict[str, Any]],
    files: ArtifactFolder,
    at: str,
) -> None:
    runs = list_container_runs(pods)
    if len(runs) > MAX_LOGS:
        files.problem(f"logs in {at}: {len(runs) - MAX_LOGS} of {len(runs)} are left out")
    for run in runs[:MAX_LOGS]:
        crew.start(snapshot.log, run)


def _list_other_kinds(
    session: Session, files: ArtifactFolder, deadline: Deadline
) -> list[Resource]:
    """Return the kinds whose objects are not written by somebody else."""
    try:
        found = session.kinds(deadline=deadline)
    except KwaitError as error:
        files.problem(f"kinds: {error}")
        return []
    return list(_select_listable(found))


def _select_listable(found: Sequence[Resource]) -> Iterator[Resource]:
    for resource in found:
        # Events are the same in both of their groups.
        apart = resource.kind == EVENTS.kind or resource.qualified == PODS.qualified
        if resource.namespaced and "list" in resource.verbs and not apart:
            yield resource
