"""Dumps of namespaces and of the cluster: objects, events and logs, written to a folder.

Time is bounded by the caller, size by the folder. Each error is a line in the folder's
`problems.txt`; none is raised.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Self

import msgspec

from pytest_kwait.apimachinery.conditions import is_condition_true
from pytest_kwait.client.resource import (
    DAEMON_SETS,
    DEPLOYMENTS,
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    Resource,
)
from pytest_kwait.client.responses import decode_object
from pytest_kwait.client.session import ApiSession
from pytest_kwait.client.transport import JSON
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.failure.redaction import (
    learn_namespace,
    learn_secrets,
    make_redactor,
    redact_log,
    redact_object,
)
from pytest_kwait.engine.pod_fields import report_containers
from pytest_kwait.errors import ApiError, KwaitError
from pytest_kwait.suite.artifacts.folder import ArtifactFolder, create_folder, make_portable_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from kubernetes.client import ApiClient

    from pytest_kwait.clusters.cluster import Cluster

REQUEST_TIMEOUT = 5.0
"""Maximum seconds of one request."""

MAX_OBJECTS = 500
"""Maximum number of written objects per kind."""

MAX_OBJECTS_SIZE = 2 * 1024 * 1024
"""Maximum bytes of written objects per kind."""

MAX_EVENT_LINES = 2000
"""Maximum number of written events; the latest are kept."""

MAX_LOG_LINES = 2000
"""Maximum lines written per log; the latest are kept."""

MAX_LOG_SIZE = 256 * 1024
"""Maximum bytes written per log; the latest are kept."""

MAX_LOG_READ = 16 * MAX_LOG_SIZE
"""Maximum bytes read per log. A longer log is read again with fewer lines."""

SHORT_LOG_LINES = 50
"""Lines that are read of logs with long lines."""

Obj = dict[str, Any]
CLUSTER_DUMP_TIMEOUT = 30.0
"""Maximum seconds for dumping a cluster that is not ready."""

WORKERS = 8
"""Concurrent requests."""

MAX_LOGS = 100
"""Maximum number of logs per namespace; those of failing containers come first."""

SYSTEM_NAMESPACE = "kube-system"

# Events about nodes are in the default namespace.
_NODE_EVENTS_NAMESPACE = "default"

_CLUSTER_NAMESPACES = (SYSTEM_NAMESPACE, _NODE_EVENTS_NAMESPACE)

_SECRETS_TIMEOUT = 1.0
"""Minimum seconds of the last list of Secrets, also when collection has taken its time."""


class ContainerRun:
    """One run of a container, which may have a log.

    Args:
        pod: the pod's name.
        container: the container's name.
        previous: whether it is the run before the current one.
        failing: whether the container is failing.
    """

    def __init__(self, pod: str, container: str, *, previous: bool, failing: bool) -> None:
        self.pod = pod
        self.container = container
        self.previous = previous
        self.failing = failing

    @property
    def file(self) -> str:
        """The file name of its log."""
        run = ".previous" if self.previous else ""
        return f"logs/{make_portable_name(self.pod)}/{make_portable_name(self.container)}{run}.log"

    def __str__(self) -> str:
        return f"logs of {self.pod}/{self.container}{' (previous run)' if self.previous else ''}"


class NamespaceDump:
    """Writes the contents of one namespace; records errors in the folder instead of raising.

    Each method is a separate task and may run concurrently with the others.

    Args:
        session: the session for requests.
        namespace: the namespace; None for cluster-scoped objects.
        place: the subfolder; empty for the folder itself.
        deadline: when everything must be finished.
    """

    def __init__(
        self,
        session: ApiSession,
        namespace: str | None,
        folder: ArtifactFolder,
        place: str,
        deadline: Deadline,
    ) -> None:
        self._session = session
        self._namespace = namespace
        self._folder = folder
        self._place = f"{place}/" if place else ""
        self._deadline = deadline

    def write_namespace(self) -> None:
        """Write the Namespace object."""
        name = self._namespace or ""
        with _RecordErrors(self._folder, f"namespace {name}"):
            namespace_object = self._session.get(NAMESPACES, name, deadline=self._request())
            self._write_objects("namespace.yaml", NAMESPACES, [namespace_object], 0)

    def objects(self, resource: Resource) -> list[Obj]:
        """Write and return the objects of a kind."""
        with _RecordErrors(self._folder, f"{resource.qualified}{self._where}"):
            try:
                objects, remaining_count = self._listed(resource)
            except ApiError as error:
                if error.status == 404:
                    # The kind was removed after discovery, with all of its objects.
                    return []
                raise
            if objects:
                name = f"objects/{make_portable_name(resource.qualified)}.yaml"
                self._write_objects(name, resource, objects, remaining_count)
            return objects
        return []

    def events(self) -> None:
        """Write the events, earliest first."""
        with _RecordErrors(self._folder, f"events{self._where}"):
            listed = self._session.list(EVENTS, self._namespace, deadline=self._deadline)
            lines = format_events(item.object for item in listed.items)
            if len(lines) > MAX_EVENT_LINES:
                note = f"# cut: the last {MAX_EVENT_LINES} of {len(lines)} events"
                lines = [note, *lines[-MAX_EVENT_LINES:]]
            if lines:
                text = "".join(f"{line}\n" for line in lines)
                self._folder.write(f"{self._place}events.txt", text, keep="end")

    def log(self, run: ContainerRun) -> None:
        """Write the log of one run of a container."""
        with _RecordErrors(self._folder, f"{run}{self._where}"):
            # Redact before truncating: a truncated secret is no longer recognized.
            text = read_log(self._session, self._namespace or "", run, self._deadline)
            lines = redact_log(text, self._folder.redact).splitlines(keepends=True)
            if len(lines) > MAX_LOG_LINES:
                lines = [f"# cut: the last {MAX_LOG_LINES} lines\n", *lines[-MAX_LOG_LINES:]]
            if lines:
                text = "".join(lines)
                self._folder.write(
                    f"{self._place}{run.file}", text, keep="end", limit=MAX_LOG_SIZE, redacted=True
                )

    def _listed(self, resource: Resource) -> tuple[list[Obj], int]:
        """Return the first objects of a kind and the number of others."""
        # Without logging server warnings: no test requests these deprecated APIs.
        answer = self._session.transport.send(
            "GET",
            resource.path(self._namespace),
            query={"limit": MAX_OBJECTS},
            accept=JSON,
            deadline=self._request(),
        )
        listed = decode_object(answer.data)
        metadata = listed.get("metadata") or {}
        return listed.get("items") or [], metadata.get("remainingItemCount") or 0

    def _write_objects(
        self, name: str, resource: Resource, objects: Sequence[Obj], remaining_count: int
    ) -> None:
        redact = self._folder.redact
        documents: list[str] = []
        size = 0
        for obj in objects:
            # Items of a list have no kind or apiVersion.
            whole = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
            document = to_yaml(redact_object(whole, redact))
            size += len(document)
            if documents and (size > MAX_OBJECTS_SIZE or self._deadline.expired):
                break
            documents.append(document)
        total = len(objects) + remaining_count
        note = ""
        if len(documents) < total:
            note = f"# cut: {len(documents)} of {total} {resource.plural}\n"
        text = note + "---\n".join(documents)
        self._folder.write(f"{self._place}{name}", text, redacted=True)

    def _request(self) -> Deadline:
        return self._deadline.at_most(REQUEST_TIMEOUT)

    @property
    def _where(self) -> str:
        return f" in {self._namespace}" if self._namespace else ""


def read_log(
    session: ApiSession,
    namespace: str,
    run: ContainerRun,
    deadline: Deadline,
    *,
    timestamps: bool = False,
) -> str:
    """Return the last lines of the log of one run of a container.

    Args:
        namespace: the pod's namespace.
        deadline: when it must be finished.
        timestamps: whether each line starts with its time.

    Raises:
        ApiError: it cannot be read.
        DeadlineExceeded: it was not complete in time.
    """
    text = ""
    for lines in (MAX_LOG_LINES + 1, SHORT_LOG_LINES):
        text = session.logs(
            namespace,
            run.pod,
            container=run.container,
            previous=run.previous,
            tail_lines=lines,
            timestamps=timestamps,
            limit_bytes=MAX_LOG_READ,
            deadline=deadline.at_most(REQUEST_TIMEOUT),
        )
        if len(text.encode()) < MAX_LOG_READ:
            break
        # The server truncates at the end.
    return text


class _RecordErrors:
    """Records server errors within the block in a folder, and suppresses them.

    Args:
        folder: the folder that records the error.
        what: the requested data, for the message.
    """

    def __init__(self, folder: ArtifactFolder, what: str) -> None:
        self._folder = folder
        self._what = what

    def __enter__(self) -> None:
        """Enter the block."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, KwaitError | msgspec.DecodeError):
            self._folder.problem(f"{self._what}: {error}")
            return True
        return False


def list_container_runs(pods: Iterable[Obj]) -> list[ContainerRun]:
    """Return the container runs of pods, failing containers first."""
    runs = []
    for pod in pods:
        name = str((pod.get("metadata") or {}).get("name"))
        status = pod.get("status") or {}
        for field in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
            for report in report_containers(status.get(field)):
                failing = report.failing
                if report.state != "waiting":
                    runs.append(ContainerRun(name, report.name, previous=False, failing=failing))
                if report.restarts or (report.state == "waiting" and report.has_run):
                    runs.append(ContainerRun(name, report.name, previous=True, failing=failing))
    return sorted(runs, key=lambda run: not run.failing)


def is_failing(pod: Obj) -> bool:
    """Return whether a pod has failed, is not ready, or is restarting."""
    status = pod.get("status") or {}
    if status.get("phase") == "Succeeded":
        return False
    return not is_condition_true(pod, "Ready") or status.get("phase") == "Failed"


def format_events(events: Iterable[Obj]) -> list[str]:
    """Return one line per event, earliest first."""
    return [_format_event(event) for event in sorted(events, key=_event_time)]


def _event_time(event: Obj) -> str:
    # The time is in a count, a series or a single event of either API. The formats differ only
    # after the whole seconds.
    times = (
        (event.get("series") or {}).get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        event.get("firstTimestamp"),
        (event.get("metadata") or {}).get("creationTimestamp"),
    )
    latest = next((time for time in times if isinstance(time, str) and time), "")
    return latest.rstrip("Z")


def _format_event(event: Obj) -> str:
    about = event.get("involvedObject") or {}
    subject = f"{str(about.get('kind') or '?').lower()}/{about.get('name') or '?'}"
    count = (event.get("series") or {}).get("count") or event.get("count") or 1
    times = f" (x{count})" if count > 1 else ""
    source = event.get("source") or {}
    component = event.get("reportingComponent") or source.get("component") or ""
    time = _event_time(event).partition(".")[0]
    message = " ".join(str(event.get("message") or "").split())
    source_text = f" [{component}]" if component else ""
    return (
        f"{time + 'Z' if time else '?':20}  {event.get('type') or '?':7}  {subject}  "
        f"{event.get('reason') or '?'}{times}: {message}{source_text}"
    )


def to_yaml(value: Any) -> str:
    """Return JSON values as YAML."""
    import yaml

    # Much faster; available if PyYAML was built with libyaml.
    dumper: type[Any] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(
        value, Dumper=dumper, default_flow_style=False, sort_keys=False, allow_unicode=True
    )
    return text


def dump_cluster(client: ApiClient, folder: Path, deadline: Deadline) -> list[str]:
    """Write the state of the cluster itself into a folder.

    This includes nodes, control-plane pods and their owners, events, and the logs of control-plane
    pods that are not ready.

    Args:
        folder: the folder; created if missing.
        deadline: when it must be finished; anything missing by then is left out.

    Returns:
        why nothing could be written, e.g. a full disk; empty on success. Server errors are listed
        in the folder's `problems.txt`.
    """
    session = ApiSession.of(client)
    for name in _CLUSTER_NAMESPACES:
        # Not in a namespace of the run: a refusal says nothing about the values of its Secrets.
        learn_namespace(session, name, deadline=deadline)
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
    for name in _CLUSTER_NAMESPACES:
        learn_namespace(session, name, 0.0, deadline)
    files.hide_new_values()
    files.finish()
    return [files.trouble] if files.trouble else []


def dump_unready_cluster(cluster: Cluster, artifacts: Path | None) -> str:
    """Write the state of an unready cluster to a run's artifacts.

    Args:
        artifacts: the folder of the run's artifacts; None if artifacts are disabled.

    Returns:
        a line with the location, or why there is none; empty if artifacts are disabled.
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
    """Write the contents of namespaces into a folder, one subfolder each.

    This includes the objects of every kind in discovery, events, and the current and previous logs
    of all containers.

    Args:
        namespaces: their names.
        files: the artifacts folder, which also records errors.
        deadline: when it must be finished; anything missing by then is left out.
    """
    session = ApiSession.of(client)
    learn_secrets(session, namespaces)
    with _WorkerPool() as crew:
        snapshots = {
            name: NamespaceDump(session, name, files, name, deadline) for name in namespaces
        }
        pods = {name: crew.start(snapshot.objects, PODS) for name, snapshot in snapshots.items()}
        kinds = crew.start(_list_other_kinds, session, files, deadline)
        for snapshot in snapshots.values():
            crew.start(snapshot.events)
            crew.start(snapshot.write_namespace)
        for name, snapshot in snapshots.items():
            _start_logs(crew, snapshot, pods[name](), files, name)
        for resource in kinds():
            for snapshot in snapshots.values():
                crew.start(snapshot.objects, resource)
    # Values of Secrets that came while the texts were read.
    learn_secrets(session, namespaces, 0.0, max(deadline.remaining, _SECRETS_TIMEOUT))
    files.hide_new_values()


class _WorkerPool:
    """Thread pool that runs tasks in order; leaving the block waits for all tasks."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="kwait-artifacts")
        self._results: list[Callable[[], Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # On an interrupt, cancel tasks that have not started.
        self._pool.shutdown(cancel_futures=kind is not None)
        if kind is None:
            for result in self._results:
                result()

    def start(self, task: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
        """Submit a task; return a function that waits for its result."""
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
    session: ApiSession, files: ArtifactFolder, deadline: Deadline
) -> list[Resource]:
    """Return the kinds without a writer of their own."""
    try:
        kinds = session.list_kinds(deadline=deadline)
    except KwaitError as error:
        files.problem(f"kinds: {error}")
        return []
    return list(_select_listable(kinds))


def _select_listable(kinds: Sequence[Resource]) -> Iterator[Resource]:
    for resource in kinds:
        # Both event groups serve the same events.
        apart = resource.kind == EVENTS.kind or resource.qualified == PODS.qualified
        if resource.namespaced and "list" in resource.verbs and not apart:
            yield resource
