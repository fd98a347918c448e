"""Wait until objects that another program has created are ready, each by the rules of its kind.

Suspended Jobs, paused Deployments, and sets whose pods are replaced by hand are not awaited, as by
Helm.

Source: helm.sh/helm/v3/pkg/kube/ready.go IsReady.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from pytest_kwait.client.discovery import match_resource
from pytest_kwait.client.resource import (
    BUILT_IN,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
)
from pytest_kwait.client.session import ApiSession
from pytest_kwait.engine.condition import EvidenceScope, Failed, Pending
from pytest_kwait.engine.options import WaitOptions, resolve_options
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.framework.named_objects import count_noun
from pytest_kwait.framework.objects.wait import AllConditions
from pytest_kwait.framework.operations.create import ready_condition
from pytest_kwait.framework.registry import verb

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kubernetes.client import ApiClient

    from pytest_kwait.client.resource import Resource
    from pytest_kwait.engine.condition import Condition

_MAX_NAMED = 3
"""Objects that a message names."""

_ALWAYS = (PODS, REPLICA_SETS, REPLICATION_CONTROLLERS)
_SETS = (DAEMON_SETS, STATEFUL_SETS)


def is_awaited(obj: Mapping[str, Any]) -> bool:
    """Return whether an object has a state of its own kind to wait for."""
    return _awaited_resource(obj) is not None


def _awaited_resource(obj: Mapping[str, Any]) -> Resource | None:
    resource = match_resource(BUILT_IN.values(), obj["kind"], obj["apiVersion"])
    spec = obj.get("spec") or {}
    awaited = resource in _ALWAYS
    awaited = awaited or (resource == JOBS and not spec.get("suspend"))
    awaited = awaited or (resource == DEPLOYMENTS and not spec.get("paused"))
    strategy = (spec.get("updateStrategy") or {}).get("type")
    awaited = awaited or (resource in _SETS and strategy != "OnDelete")
    return resource if awaited else None


class ReadyObjects(AllConditions):
    """Objects that are ready, each by the rules of its kind."""

    @property
    def subject(self) -> str:
        """The subjects of the first parts, and how many there are beside them."""
        first = [part.subject for part in self.parts[:_MAX_NAMED]]
        others = len(self.parts) - len(first)
        return ", ".join(first) + (f" and {count_noun(others, 'more object')}" if others else "")

    @property
    def goal(self) -> str:
        """The state of all of them."""
        return "become ready"

    def scope(self) -> EvidenceScope:
        """Return the evidence scope of the part that decided the verdict."""
        return _find_decisive(self.parts).scope()


def _find_decisive(parts: Sequence[Condition]) -> Condition:
    """Return the first part that has failed, else the first that is pending, else the first."""
    verdicts = [(part, part.verdict()) for part in parts]
    for worst in (Failed, Pending):
        for part, verdict in verdicts:
            if isinstance(verdict, worst):
                return part
    return parts[0]


@verb(limit="deployment", summary="objects that are ready by the rules of their kinds")
def wait_for_objects_ready(
    client: ApiClient,
    namespace: str,
    objects: Sequence[Mapping[str, Any]],
    **options: Unpack[WaitOptions],
) -> None:
    """Wait until all of several objects are ready at the same time; the first failure ends it.

    Pods, Jobs and workloads are awaited as by `create_and_wait`.

    Args:
        namespace: the namespace of objects that name none.
        objects: the objects as stored by the server, at least one; all are awaited.
        **options: `WaitOptions`.

    Raises:
        WaitFailed: one of them can no longer become ready.
        WaitTimeout: not all of them were ready within the limit.
    """
    session = ApiSession.of(client)
    settings = resolve_options(options, timeout="deployment", session=session)
    parts = [
        ready_condition(_awaited_resource(obj), obj["metadata"].get("namespace") or namespace, obj)
        for obj in objects
    ]
    condition = parts[0] if len(parts) == 1 else ReadyObjects(parts)
    wait_for_condition(session, condition, settings)
