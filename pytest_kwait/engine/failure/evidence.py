"""Evidence about a failed wait, gathered from the cluster within a few seconds.

The evidence consists of pods, warning events, log tails, and the existing objects of the kind if
the named one is missing. An error while gathering is added to the evidence and never raised.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypedDict

from pytest_kwait.apimachinery.selectors import compile_label_selector, name_selector
from pytest_kwait.client.resource import (
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    STORAGE_CLASSES,
)
from pytest_kwait.client.responses import ObjectMeta
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.condition import ObjectReference  # noqa: TC001 - read by decoders
from pytest_kwait.engine.failure.log_records import find_records, find_refusals
from pytest_kwait.engine.failure.operators import (
    OperatedObjects,
    OperatorContainer,
    list_operator_containers,
    make_matcher,
)
from pytest_kwait.engine.failure.owned_pods import list_owned_pods
from pytest_kwait.engine.failure.redaction import learn_secrets, make_redactor, redact_log
from pytest_kwait.engine.pod_fields import (
    ContainerReport,
    ContainerStatuses,
    report_containers,
)
from pytest_kwait.errors import ApiError
from pytest_kwait.wait.context import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.engine.condition import EvidenceScope, Source

NAMES = 10
LIMIT = 5.0
"""Seconds that gathering may take in all."""

_SECRETS_TIMEOUT = 1.0
"""Seconds of the limit that are kept for the list of Secrets, which comes last."""

LOG_LINES = 10
LOGS = 3
LOG_RETRY_PAUSE = 0.5
"""Seconds after which a refused log is requested once more."""

SEARCHED_LINES = 1000
"""Lines of each log of an operator that are searched."""

SHOWN_LOGS = 3
"""Maximum number of logs of operators with refusals, and with records about the objects."""

MISSING = 3
WORKERS = 5

_SIMILAR = 3
_GENERATED_LABELS = frozenset(
    {
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/controller-uid",
        "controller-revision-hash",
        "controller-uid",
        "pod-template-generation",
        "pod-template-hash",
        "statefulset.kubernetes.io/pod-name",
    }
)

_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"

_NO_LOG = re.compile("unable to retrieve container logs for ", re.IGNORECASE)
"""The whole log, with status 200, of a container that the runtime does not know.

Source: kubelet kuberuntime_container.go GetContainerLogs, before 1.25.
"""


class _Named(TypedDict):
    metadata: ObjectMeta


@dataclass(frozen=True, slots=True)
class ExistingObjects:
    """The existing objects of a kind, or their labels.

    Args:
        resource: the kind, as kubectl knows it.
        namespace: the namespace; None for a cluster-scoped kind.
        missing: the name of the missing object, or the selector that matches nothing.
        names: the most similar names, then the first of the others, ten in all; for a selector the
            sets of labels, the most frequent first.
        count: the number of objects.
        labels: whether `names` are sets of labels.
    """

    resource: str
    namespace: str | None
    missing: str
    names: tuple[str, ...]
    count: int
    labels: bool = False


def _list_labels(session: ApiSession, source: Source, deadline: Deadline) -> ExistingObjects | None:
    """Return the labels of the kind's objects if its selector matches none; else None."""
    listed = session.list(source.resource, source.namespace, deadline=deadline, type=_Named)
    matches = compile_label_selector(source.selector)
    sets: Counter[str] = Counter()
    for item in listed.items:
        labels = item.object["metadata"].get("labels") or {}
        if matches(labels):
            return None
        shown = [f"{k}={v}" for k, v in sorted(labels.items()) if k not in _GENERATED_LABELS]
        sets[",".join(shown) or "no labels"] += 1
    names = tuple(name for name, _ in sets.most_common(NAMES))
    missing = source.selector or ""
    resource = source.resource.qualified
    return ExistingObjects(resource, source.namespace, missing, names, sets.total(), labels=True)


def list_existing(
    session: ApiSession, source: Source, deadline: Deadline
) -> ExistingObjects | None:
    """Return the existing objects beside a missing one; None if it exists after all.

    Raises:
        ApiError: the request failed.
        DeadlineExceeded: the deadline passed before the answer.
    """
    if source.name is None:
        return _list_labels(session, source, deadline)
    missing = source.name
    listed = session.list(source.resource, source.namespace, deadline=deadline, type=_Named)
    names = sorted(item.object["metadata"]["name"] for item in listed.items)
    if missing in names:
        return None
    near = difflib.get_close_matches(missing, names, n=_SIMILAR)
    shown = [*near, *(name for name in names if name not in near)][:NAMES]
    return ExistingObjects(
        source.resource.qualified, source.namespace, missing, tuple(shown), len(names)
    )


def describe_lost_definition(session: ApiSession, source: Source, *, is_served: bool) -> str:
    """Return that the definition of a custom resource was deleted, as a sentence; else empty.

    Args:
        is_served: whether the server may still serve the kind; False after a 404 for it.
    """
    resource = source.resource
    name = f"{resource.plural}.{resource.group}"
    deadline = Deadline.after(LIMIT, session.clock)
    try:
        definition = session.get(CUSTOM_RESOURCE_DEFINITIONS, name, deadline=deadline)
    except DeadlineExceeded:
        return ""
    except ApiError as error:
        if error.status != 404 or (is_served and _is_listed(session, source, deadline)):
            return ""
        return f"the CustomResourceDefinition {name} was deleted"
    if definition["metadata"].get("deletionTimestamp"):
        return f"the CustomResourceDefinition {name} is being deleted"
    versions = [
        version["name"] for version in definition["spec"]["versions"] if version.get("served")
    ]
    if resource.version not in versions:
        return f"the CustomResourceDefinition {name} no longer serves {resource.version}"
    return ""


def _is_listed(session: ApiSession, source: Source, deadline: Deadline) -> bool:
    """Return whether the server lists a kind, as far as that can be seen."""
    try:
        session.list(source.resource, source.namespace, limit=1, deadline=deadline, type=_Named)
    except ApiError as error:
        return error.status != 404
    except DeadlineExceeded:
        return True
    return True


class _ClaimSource(TypedDict, total=False):
    claimName: str | None


class _Volume(TypedDict, total=False):
    name: str
    persistentVolumeClaim: _ClaimSource | None
    ephemeral: dict[str, Any] | None


class _Spec(TypedDict, total=False):
    nodeName: str | None
    volumes: list[_Volume] | None


class _PodStatus(TypedDict, total=False):
    phase: str | None
    reason: str | None
    message: str | None
    conditions: list[dict[str, Any]] | None
    initContainerStatuses: ContainerStatuses
    containerStatuses: ContainerStatuses


class _Pod(TypedDict, total=False):
    metadata: ObjectMeta
    spec: _Spec | None
    status: _PodStatus | None


@dataclass(frozen=True, slots=True)
class PodReport:
    """One pod in a failure message.

    Args:
        node: its node; empty before it is scheduled.
        note: the pod's own reason, or why it is not scheduled.
        deleting: whether it is being deleted.
        ready: whether its Ready condition is True.
        containers: its containers, init containers first.
        claims: the names of the claims that it uses.
    """

    name: str
    uid: str
    phase: str
    node: str
    note: str
    deleting: bool
    ready: bool
    containers: tuple[ContainerReport, ...]
    claims: tuple[str, ...] = ()

    @property
    def failing(self) -> bool:
        """True if the pod has an error, as opposed to not being ready yet."""
        return (
            self.phase == "Failed"
            or bool(self.note)
            or any(container.failing for container in self.containers)
        )


@dataclass(frozen=True, slots=True)
class UnboundClaim:
    """A claim without a volume, of an awaited pod.

    Args:
        storage_class: the name of its class; empty for none.
        event: the last event about it, with its reason; empty without one.
        classes: the names of the classes that there are, the default ones marked.
    """

    name: str
    storage_class: str
    event: str
    classes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EventGroup:
    """Warning events with the same text.

    Args:
        subject: the first object they are about, `pod/web-0`.
        others: the number of further objects with the same event.
        reason: their reason.
        message: their message.
        count: the number of occurrences.
    """

    subject: str
    others: int
    reason: str
    message: str
    count: int


@dataclass(frozen=True, slots=True)
class LogTail:
    """The last log lines of a container.

    Args:
        pod: the pod's name.
        container: the container's name.
        previous: whether they are from the previous run.
        lines: the lines; empty if the run has printed nothing.
        namespace: the pod's namespace, if it is another one than that of the wait.
    """

    pod: str
    container: str
    previous: bool
    lines: tuple[str, ...]
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence of one failure.

    Args:
        namespace: the namespace; None for a cluster-scoped subject.
        objects: the objects of the wait.
        pods: its pods, failed ones first.
        events: Warning events of both, the most frequent first.
        logs: of containers that have failed, run without being ready or are being stopped, and
            those that the wait has read.
        errors: the parts that could not be gathered, with their errors.
        kubectl: the arguments that make kubectl use the same cluster.
        existing: the existing objects of the kind, if the awaited one is missing.
        outlook: the place of more about a cluster that ends with the run; empty for other clusters.
        claims: the unbound claims that keep pods from being scheduled.
        refusals: requests that the API server refused to the objects' operator or to pods of the
            namespace, by their logs.
        records: what logs of the objects' operator say about them.
    """

    namespace: str | None = None
    objects: tuple[ObjectReference, ...] = ()
    pods: tuple[PodReport, ...] = ()
    events: tuple[EventGroup, ...] = ()
    logs: tuple[LogTail, ...] = ()
    errors: tuple[str, ...] = ()
    kubectl: tuple[str, ...] = ()
    existing: tuple[ExistingObjects, ...] = ()
    outlook: str = ""
    claims: tuple[UnboundClaim, ...] = ()
    refusals: tuple[LogTail, ...] = ()
    records: tuple[LogTail, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the evidence as JSON values."""
        return {name: value for name, value in asdict(self).items() if name != "outlook"}


def gather_evidence(
    session: ApiSession,
    scope: EvidenceScope,
    missing: Sequence[Source] = (),
    operated: OperatedObjects | None = None,
) -> Evidence:
    """Return the evidence about the objects in `scope`, within five seconds.

    Args:
        missing: the named sources whose object was not seen.
        operated: objects that an operator may work on, whose logs are searched; None to search
            none.
    """
    limit = Deadline.after(LIMIT, session.clock)
    deadline = limit.at_most(LIMIT - _SECRETS_TIMEOUT)
    errors: list[str] = []
    with ThreadPoolExecutor(max_workers=WORKERS, thread_name_prefix="kwait-evidence") as pool:
        scope = _add_owned_pods(session, scope, operated, pool, deadline)
        listing = pool.submit(_gather_pods, session, scope, deadline, errors)
        reading = pool.submit(_gather_events, session, scope, deadline, errors)
        naming = [
            pool.submit(_gather_existing, session, source, deadline, errors)
            for source in missing[:MISSING]
        ]
        pods = listing.result()
        binding = pool.submit(_gather_claims, session, scope, pods, deadline, errors)
        logs = _gather_logs(session, scope, pods, pool, deadline, errors)
        refusals, records = _search_logs(session, operated, pool, deadline)
        existing = tuple(objects for future in naming if (objects := future.result()) is not None)
        events = _group_events(reading.result(), scope, pods)
        # Last, as the texts may have values of Secrets that came meanwhile. The report masks them.
        pool.submit(learn_secrets, session, [scope.namespace], 0.0, limit.remaining).result()
    return Evidence(
        scope.namespace,
        tuple(scope.objects),
        tuple(pods),
        events,
        logs,
        tuple(sorted(errors)),
        tuple(session.kubectl_args),
        existing,
        session.outlook,
        binding.result(),
        refusals,
        records,
    )


def _add_owned_pods(
    session: ApiSession,
    scope: EvidenceScope,
    operated: OperatedObjects | None,
    pool: ThreadPoolExecutor,
    deadline: Deadline,
) -> EvidenceScope:
    """Return the scope with the pods of a custom object, where the wait itself knows none."""
    has_pods = scope.pods is not None or scope.pod_names
    if operated is None or not operated.is_custom or not scope.namespace or has_pods:
        return scope
    names = list_owned_pods(session, scope.namespace, operated.names, pool, deadline)
    return replace(scope, pod_names=names)


def _gather_pods(
    session: ApiSession, scope: EvidenceScope, deadline: Deadline, errors: list[str]
) -> list[PodReport]:
    if scope.pods is None and not scope.pod_names:
        return []
    selector = name_selector(scope.pod_names[0]) if len(scope.pod_names) == 1 else None
    try:
        listed = session.list(
            PODS,
            scope.namespace,
            label_selector=scope.pods,
            field_selector=selector,
            deadline=deadline,
            type=_Pod,
        )
    except (ApiError, DeadlineExceeded) as error:
        errors.append(f"pods: {error}")
        return []
    wanted = set(scope.pod_names)
    pods = [
        _report_pod(item.object)
        for item in listed.items
        if not wanted or item.object["metadata"]["name"] in wanted
    ]
    rank = {name: position for position, name in enumerate(scope.suspects)}
    last = len(rank)
    return sorted(
        pods, key=lambda pod: (rank.get(pod.name, last), not pod.failing, pod.ready, pod.name)
    )


def _gather_claims(
    session: ApiSession,
    scope: EvidenceScope,
    pods: Sequence[PodReport],
    deadline: Deadline,
    errors: list[str],
) -> tuple[UnboundClaim, ...]:
    """Return the unbound claims of pods that are not scheduled because of one."""
    waiting = [pod for pod in pods if not pod.node and "persistentvolumeclaim" in pod.note.lower()]
    names = dict.fromkeys(name for pod in waiting for name in pod.claims)
    if not names:
        return ()
    about = "involvedObject.kind=PersistentVolumeClaim"
    try:
        claims = session.list(PERSISTENT_VOLUME_CLAIMS, scope.namespace, deadline=deadline).items
        events = session.list(
            EVENTS, scope.namespace, field_selector=about, deadline=deadline
        ).items
        classes = session.list(STORAGE_CLASSES, deadline=deadline).items
    except (ApiError, DeadlineExceeded) as error:
        errors.append(f"claims: {error}")
        return ()
    there = tuple(sorted(_describe_class(item.object) for item in classes))
    last = {item.object["involvedObject"].get("uid"): item.object for item in events}
    claims_by_name = {item.object["metadata"]["name"]: item.object for item in claims}
    unbound = []
    for name in names:
        claim = claims_by_name.get(name)
        if claim is None:
            unbound.append(UnboundClaim(name, "", "it does not exist", ()))
        elif ((claim.get("status") or {}).get("phase") or "Pending") == "Pending":
            event = last.get(claim["metadata"].get("uid")) or {}
            said = (event.get("reason"), " ".join((event.get("message") or "").split()))
            wanted = (claim.get("spec") or {}).get("storageClassName") or ""
            unbound.append(UnboundClaim(name, wanted, ": ".join(filter(None, said)), there))
    return tuple(unbound[:NAMES])


def _describe_class(obj: dict[str, Any]) -> str:
    name: str = obj["metadata"]["name"]
    is_default = (obj["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true"
    return f"{name} (default)" if is_default else name


def _claims_of(pod: dict[str, Any]) -> Iterator[str]:
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        if volume.get("ephemeral") is not None:
            yield f"{pod['metadata']['name']}-{volume.get('name')}"
        elif claim := (volume.get("persistentVolumeClaim") or {}).get("claimName"):
            yield claim


def _gather_existing(
    session: ApiSession, source: Source, deadline: Deadline, errors: list[str]
) -> ExistingObjects | None:
    try:
        return list_existing(session, source, deadline)
    except (ApiError, DeadlineExceeded) as error:
        errors.append(f"{source.resource.plural}: {error}")
        return None


def _report_pod(pod: dict[str, Any]) -> PodReport:
    metadata, status = pod["metadata"], pod.get("status") or {}
    conditions = {c.get("type"): c for c in status.get("conditions") or ()}
    note = ": ".join(filter(None, (status.get("reason"), status.get("message"))))
    scheduled = conditions.get("PodScheduled", {})
    if not note and scheduled.get("status") == "False":
        note = ": ".join(filter(None, (scheduled.get("reason"), scheduled.get("message"))))
    return PodReport(
        metadata["name"],
        metadata.get("uid") or "",
        status.get("phase") or "Pending",
        (pod.get("spec") or {}).get("nodeName") or "",
        note,
        bool(metadata.get("deletionTimestamp")),
        conditions.get("Ready", {}).get("status") == "True",
        (
            *report_containers(status.get("initContainerStatuses"), init=True),
            *report_containers(status.get("containerStatuses")),
        ),
        tuple(_claims_of(pod)),
    )


def _gather_events(
    session: ApiSession, scope: EvidenceScope, deadline: Deadline, errors: list[str]
) -> Sequence[dict[str, Any]]:
    if scope.namespace is None:
        return []
    try:
        listed = session.list(
            EVENTS, scope.namespace, field_selector="type=Warning", deadline=deadline
        )
    except (ApiError, DeadlineExceeded) as error:
        errors.append(f"events: {error}")
        return []
    return [item.object for item in listed.items]


def _group_events(
    events: Iterable[dict[str, Any]], scope: EvidenceScope, pods: Sequence[PodReport]
) -> tuple[EventGroup, ...]:
    uids = {pod.uid for pod in pods} | {reference.uid for reference in scope.objects}
    owners = "|".join(re.escape(reference.name) for reference in scope.objects)
    # Group the same error across pods and containers.
    pods_made = rf"|\b(?:{owners})-[a-z0-9]{{5}}\b" if owners else ""
    generated = re.compile(
        rf"\b[0-9a-f]{{32,}}\b|\b[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}\b{pods_made}"
    )
    counts: Counter[tuple[str, str]] = Counter()
    subjects: dict[tuple[str, str], dict[str, None]] = {}
    messages: dict[tuple[str, str], str] = {}
    for event in events:
        about = event.get("involvedObject") or {}
        if about.get("uid") not in uids:
            continue
        message = " ".join((event.get("message") or "").split())
        key = (event.get("reason") or "", generated.sub("*", message))
        counts[key] += (event.get("series") or {}).get("count") or event.get("count") or 1
        subject = f"{str(about.get('kind') or '').lower()}/{about.get('name')}"
        subjects.setdefault(key, {})[subject] = None
        messages.setdefault(key, message)
    return tuple(
        EventGroup(next(iter(subjects[key])), len(subjects[key]) - 1, key[0], messages[key], count)
        for key, count in counts.most_common()
    )


@dataclass(frozen=True, slots=True)
class _ContainerRun:
    """One run of a container whose log is evidence.

    Args:
        pod: the pod's name.
        previous: whether it is the run before the current one.
    """

    pod: str
    container: ContainerReport
    previous: bool


def _iterate_runs(pods: Sequence[PodReport]) -> Iterator[_ContainerRun]:
    """Yield the runs that failed, and the current ones that are not ready or are being stopped.

    Containers of a Job past its deadline are stopped, for example.
    """
    for pod in pods:
        for container in pod.containers:
            is_running = container.state == "running"
            if container.failing and container.has_run:
                yield _ContainerRun(pod.name, container, previous=is_running)
            if is_running and (pod.deleting or not container.ready):
                yield _ContainerRun(pod.name, container, previous=False)


def _gather_logs(
    session: ApiSession,
    scope: EvidenceScope,
    pods: Sequence[PodReport],
    pool: ThreadPoolExecutor,
    deadline: Deadline,
    errors: list[str],
) -> tuple[LogTail, ...]:
    """Return the ends of the logs; a log that the server refuses is requested once more."""
    runs = list(islice(_iterate_runs(pods), LOGS))
    counts = Counter((run.pod, run.container.name) for run in runs)

    def read(run: _ContainerRun) -> LogTail | Exception:
        is_only = counts[run.pod, run.container.name] == 1
        return _read_log(session, scope.namespace or "", deadline, run, is_only=is_only)

    answers = dict(zip(runs, pool.map(read, runs), strict=True))
    refused = [run for run, answer in answers.items() if _may_recover(answer)]
    if refused and deadline.remaining > LOG_RETRY_PAUSE:
        session.clock.sleep(LOG_RETRY_PAUSE)
        answers.update(zip(refused, pool.map(read, refused), strict=True))
    tails = []
    for run, answer in answers.items():
        if isinstance(answer, LogTail):
            tails.append(answer)
        else:
            which = ", the run before" if run.previous else ""
            errors.append(f"logs of {run.pod}/{run.container.name}{which}: {answer}")
    # Two runs of a container may both have been answered by the same log.
    tails = list(dict.fromkeys(tails))
    tails += _list_read_logs(session, scope, tails)
    return tuple(tails[:LOGS])


def _list_read_logs(
    session: ApiSession, scope: EvidenceScope, gathered: Sequence[LogTail]
) -> Iterator[LogTail]:
    """Yield the ends of the logs that the wait has read, without those that were gathered."""
    current = {(tail.pod, tail.container) for tail in gathered if not tail.previous}
    known = {(tail.pod, tail.container, tail.lines) for tail in gathered}
    redact = make_redactor(session.credentials())
    for log in scope.logs:
        # Redact before splitting into lines: a private key has many.
        shown = redact_log("\n".join(log.lines), redact)
        lines = tuple(shown.splitlines()[-LOG_LINES:])
        place = (log.pod, log.container)
        if place not in current and (*place, lines) not in known:
            yield LogTail(*place, previous=False, lines=lines)


def _may_recover(answer: LogTail | Exception) -> bool:
    return isinstance(answer, ApiError) and answer.status not in (401, 403, 404)


def _read_log(
    session: ApiSession,
    namespace: str,
    deadline: Deadline,
    run: _ContainerRun,
    *,
    is_only: bool,
) -> LogTail | Exception:
    """Return the end of a run's log, or the error of its request.

    While a kubelet replaces a container, the run that has ended is the current or the previous
    one: an empty or refused log is looked for under the other.

    Args:
        is_only: whether the log of the other run is not requested anyway.
    """
    answer = _read_log_tail(session, namespace, deadline, run, previous=run.previous)
    if is_only and run.container.has_run and not (isinstance(answer, LogTail) and answer.lines):
        other = _read_log_tail(session, namespace, deadline, run, previous=not run.previous)
        if isinstance(other, LogTail) and other.lines:
            return other
    return answer


def _read_log_tail(
    session: ApiSession, namespace: str, deadline: Deadline, run: _ContainerRun, *, previous: bool
) -> LogTail | Exception:
    name = run.container.name
    try:
        text = session.logs(
            namespace,
            run.pod,
            container=name,
            previous=previous,
            tail_lines=LOG_LINES,
            deadline=deadline,
        )
    except (ApiError, DeadlineExceeded) as error:
        return error
    if _NO_LOG.match(text) and len(text.splitlines()) == 1:
        return ApiError(text.strip())
    # Redact before splitting into lines: a private key has many.
    shown = redact_log(text, make_redactor(session.credentials()))
    lines = tuple(shown.splitlines()[-LOG_LINES:])
    return LogTail(run.pod, name, previous, lines)


def _search_logs(
    session: ApiSession,
    objects: OperatedObjects | None,
    pool: ThreadPoolExecutor,
    deadline: Deadline,
) -> tuple[tuple[LogTail, ...], tuple[LogTail, ...]]:
    """Return the refused requests and the records about the objects in logs of their operator."""
    if objects is None:
        return (), ()
    containers = list_operator_containers(session, objects, pool, deadline)
    elsewhere = {container.namespace for container in containers} - {objects.namespace}
    if elsewhere:
        learn_secrets(session, elsewhere, limit=deadline.remaining)
    texts = pool.map(partial(_read_whole_log, session, deadline), containers)
    refusals: list[LogTail] = []
    records: list[LogTail] = []
    for container, text in zip(containers, texts, strict=True):
        is_elsewhere = container.namespace != objects.namespace
        where = container.namespace if is_elsewhere else ""
        tail = partial(LogTail, container.pod, container.name, previous=False, namespace=where)
        refused = find_refusals(
            text, objects.namespace if is_elsewhere else None, in_words=not is_elsewhere
        )
        if refused:
            refusals.append(tail(lines=refused))
        if not container.is_operator:
            continue
        about = find_records(text, make_matcher(objects, is_elsewhere=is_elsewhere))
        # A refusal says it in fewer words.
        new = tuple(line for line in about if not any(part in line for part in refused))
        if new:
            records.append(tail(lines=new))
    return tuple(refusals[:SHOWN_LOGS]), tuple(records[:SHOWN_LOGS])


def _read_whole_log(session: ApiSession, deadline: Deadline, container: OperatorContainer) -> str:
    try:
        text = session.logs(
            container.namespace,
            container.pod,
            container=container.name,
            previous=False,
            tail_lines=SEARCHED_LINES,
            deadline=deadline,
        )
    except (ApiError, DeadlineExceeded):
        return ""
    return redact_log(text, make_redactor(session.credentials()))
