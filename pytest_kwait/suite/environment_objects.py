"""Objects of an environment that stays: whether each is as it was when the environment was ready.

Fields are compared by `managedFields`: the server records there which client has set each of them
last, and when. So what controllers add counts as no change. An object of which a client has removed
them is compared as it is, but for status and annotations.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.conditions import get_condition, is_condition_true
from pytest_kwait.client.resource import (
    DAEMON_SETS,
    DEPLOYMENTS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
)
from pytest_kwait.engine.condition import Met
from pytest_kwait.engine.retry import request_with_retry
from pytest_kwait.errors import ApiError, InvalidArgument
from pytest_kwait.framework.operations.rollout import (
    daemon_set_rollout,
    deployment_rollout,
    stateful_set_rollout,
)
from pytest_kwait.framework.workload.fields import replicas_of
from pytest_kwait.suite.environment_inputs import digest_text
from pytest_kwait.suite.observers import ADOPT_LISTENERS, APPLY_LISTENERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.clock import Deadline
    from pytest_kwait.engine.condition import Verdict
    from pytest_kwait.suite.manifests import Objects

_TOOLS = ("pytest-kwait", "helm", "kubectl")
"""The beginnings of the names of clients that users write with."""

_READY = "+"
"""The end of the digest of an object that was ready."""

_ROLLOUTS: dict[str, Callable[[dict[str, Any]], Verdict]] = {
    DEPLOYMENTS.kind: deployment_rollout,
    DAEMON_SETS.kind: daemon_set_rollout,
    STATEFUL_SETS.kind: stateful_set_rollout,
}
_READY_CONDITIONS = ("Ready", "Established", "Available", "Complete")


@contextmanager
def recorded_objects() -> Iterator[set[str]]:
    """Record the names of the objects that are applied and created during the block.

    Yields:
        their names: apiVersion, kind, namespace and name, with blanks between them.
    """
    names: set[str] = set()

    def record(_kwait: object, objects: Objects) -> None:
        names.update(name_object(obj) for obj in objects if "uid" in obj["metadata"])

    def record_adopted(obj: Mapping[str, Any]) -> None:
        names.add(name_object(obj))

    APPLY_LISTENERS.append(record)
    ADOPT_LISTENERS.append(record_adopted)
    try:
        yield names
    finally:
        APPLY_LISTENERS.remove(record)
        ADOPT_LISTENERS.remove(record_adopted)


def name_object(obj: Mapping[str, Any]) -> str:
    """Return the name of an object in the record of an environment."""
    metadata = obj["metadata"]
    namespace = metadata.get("namespace") or "-"
    return f"{obj['apiVersion']} {obj['kind']} {namespace} {metadata['name']}"


def digest_objects(session: ApiSession, names: Iterable[str], deadline: Deadline) -> dict[str, str]:
    """Return the digests of those objects that exist, by name.

    Raises:
        ApiError: the server has an error.
        DeadlineExceeded: no answer in time.
    """
    return {
        name: _digest(obj) + (_READY if _is_ready(obj) else "")
        for name, obj in _look(session, names, deadline).items()
        if not obj["metadata"].get("deletionTimestamp")
    }


def describe_changed_object(
    session: ApiSession, recorded: Mapping[str, str], deadline: Deadline
) -> str:
    """Return the first object that is not as it was recorded, as a sentence; empty for none.

    Raises:
        ApiError: the server has an error.
        DeadlineExceeded: no answer in time.
    """
    found = _look(session, recorded, deadline)
    for name, digest in recorded.items():
        _, kind, _, own_name = name.split(" ", 3)
        title = f"{kind.lower()}/{own_name}"
        obj = found.get(name)
        if obj is None:
            return f"{title} is gone"
        if obj["metadata"].get("deletionTimestamp"):
            return f"{title} is being deleted"
        if _digest(obj) != digest.removesuffix(_READY):
            return f"{title} was changed{_describe_last_change(obj)}"
        if digest.endswith(_READY) and not _is_ready(obj):
            return f"{title} is not ready"
    return ""


def digest_programs(
    session: ApiSession, names: Iterable[str], deadline: Deadline
) -> dict[str, str]:
    """Return digests of the containers of all pods that are ready beside some objects, by pod.

    Args:
        names: the objects.

    Raises:
        ApiError: the server has an error.
        DeadlineExceeded: no answer in time.
    """
    programs = {}
    for namespace in sorted({name.split(" ", 3)[2] for name in names} - {"-"}):
        for pod in _read(session, "v1", "Pod", namespace, set(), deadline):
            if is_condition_true(pod, "Ready"):
                statuses = (pod.get("status") or {}).get("containerStatuses") or ()
                containers = sorted(str(status.get("containerID")) for status in statuses)
                programs[f"pod/{pod['metadata']['name']}"] = digest_text(" ".join(containers))
    return programs


def _look(
    session: ApiSession, names: Iterable[str], deadline: Deadline
) -> dict[str, dict[str, Any]]:
    """Return objects by name: one request for each kind and namespace."""
    places: dict[tuple[str, str, str], set[str]] = {}
    for name in names:
        api_version, kind, namespace, own_name = name.split(" ", 3)
        places.setdefault((api_version, kind, namespace), set()).add(own_name)
    found: dict[str, dict[str, Any]] = {}
    for (api_version, kind, namespace), own_names in places.items():
        for obj in _read(session, api_version, kind, namespace, own_names, deadline):
            if obj["metadata"]["name"] in own_names:
                typed = {**obj, "apiVersion": api_version, "kind": kind}
                found[name_object(typed)] = typed
    return found


def _read(
    session: ApiSession,
    api_version: str,
    kind: str,
    namespace: str,
    names: set[str],
    deadline: Deadline,
) -> list[dict[str, Any]]:
    """Return the objects of a kind in a namespace, or the only one that is asked for by name.

    Those of a kind that may not be listed are not looked at.
    """
    where = None if namespace == "-" else namespace
    # Listed too: a run needs no right to read a namespace by its name.
    field = f"metadata.name={next(iter(names))}" if len(names) == 1 else None

    def read(limit: Deadline) -> list[dict[str, Any]]:
        resource = session.resolve(kind, api_version, deadline=limit)
        listed = session.list(resource, where, field_selector=field, deadline=limit)
        return [item.object for item in listed.items]

    try:
        return request_with_retry(read, deadline)
    except InvalidArgument:
        return []  # its definition is gone
    except ApiError as error:
        if error.status in (403, 404, 405):
            return []
        raise


def _digest(obj: Mapping[str, Any]) -> str:
    metadata = obj["metadata"]
    entries = metadata.get("managedFields") or ()
    compared: list[Any] = [metadata.get("uid")]
    if entries:
        compared += [entry for entry in entries if str(entry.get("manager")).startswith(_TOOLS)]
    else:
        content = {name: part for name, part in obj.items() if name not in ("metadata", "status")}
        compared += [content, metadata.get("labels")]
    return digest_text(json.dumps(compared, sort_keys=True))


def _describe_last_change(obj: Mapping[str, Any]) -> str:
    entries = obj["metadata"].get("managedFields") or ()
    changes = [entry for entry in entries if entry.get("subresource") != "status"]
    if not changes:
        return ""
    latest = max(changes, key=lambda entry: str(entry.get("time")))
    return f" by {latest.get('manager')}"


def _is_ready(obj: dict[str, Any]) -> bool:
    """Return whether an object has what the wait for its kind looks for; False without one."""
    kind, group = obj["kind"], obj["apiVersion"].rpartition("/")[0]
    if kind in _ROLLOUTS and group == "apps":
        return isinstance(_ROLLOUTS[kind](obj), Met)
    if kind in (REPLICA_SETS.kind, REPLICATION_CONTROLLERS.kind) and group in ("", "apps"):
        return int((obj.get("status") or {}).get("readyReplicas") or 0) == replicas_of(obj)
    conditions = (get_condition(obj, kind) for kind in _READY_CONDITIONS)
    first = next(filter(None, conditions), {})
    return first.get("status") == "True"
