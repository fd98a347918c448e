"""Delete an object and wait until it and its pods are gone.

Source: kubernetes/test/e2e/framework/resource/resources.go DeleteResourceAndWaitForGC.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Unpack

from pytest_kwait.apimachinery.validation import check_namespace
from pytest_kwait.client.resource import DEPLOYMENTS, PODS
from pytest_kwait.client.responses import PartialObjectMetadata
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.condition import (
    EvidenceScope,
    Met,
    Pending,
    Source,
    TerminalState,
    Verdict,
)
from pytest_kwait.engine.object_sinks import ObjectCounter, ObjectState
from pytest_kwait.engine.options import WaitOptions, check_count, resolve_options
from pytest_kwait.engine.pod_fields import PodFields, is_terminating, phase_label
from pytest_kwait.engine.retry import request_with_retry, within_deadline
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.errors import ApiError, InvalidArgument
from pytest_kwait.framework.cluster.webhooks import WriteErrors
from pytest_kwait.framework.named_objects import (
    ObjectCondition,
    controller_uid,
    count_noun,
    resolve_target,
)
from pytest_kwait.framework.registry import verb
from pytest_kwait.framework.workload.fields import selector_of

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.client.resource import Resource

Propagation = Literal["Background", "Foreground", "Orphan"]
"""The deletion propagation of dependents: removed after the owner, before it, or orphaned."""

_PROPAGATION_POLICIES = ("Background", "Foreground", "Orphan")
_LEFT = "left"
_GONE = frozenset({404, 409})
"""The statuses of an object that is gone, or exists under another UID."""


class DeletedWithPods(ObjectCondition):
    """One object, identified by its UID, is gone, and so are its pods.

    Args:
        namespace: its namespace; None for cluster-scoped kinds.
        selector: the labels of its pods; None if it has none, or they are orphaned.
    """

    def __init__(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        uid: str,
        selector: str | None = None,
    ) -> None:
        super().__init__(resource, namespace, name, PartialObjectMetadata, uid)
        self.pods = ObjectCounter(self._state)
        self._selector = selector
        if selector is not None:
            pods = Source(PODS, namespace, self.pods, selector=selector, fields=PodFields)
            self._sources = (*self._sources, pods)

    @property
    def goal(self) -> str:
        """The awaited state."""
        return "go away" if self._selector is None else "go away with its pods"

    def verdict(self) -> Verdict:
        """Decide by the object with that UID, then by its remaining pods."""
        current = self.object.current
        if current is not None and self.object.uids() == (self.object.uid,):
            metadata = current["metadata"]
            if not metadata.get("deletionTimestamp"):
                return Pending("still there")
            finalizers = ", ".join(metadata.get("finalizers") or ())
            return Pending(f"being deleted{f', held by {finalizers}' if finalizers else ''}")
        pod_count = self.pods.count(_LEFT)
        if pod_count:
            return Pending(f"{count_noun(pod_count, 'pod')} left: {self.pods.summary()}")
        return Met()

    def _state(self, pod: dict[str, Any], _: TerminalState | None) -> ObjectState:
        owner = controller_uid(pod)
        # The pods of a Deployment are controlled by its ReplicaSets, which are deleted first.
        if self.object.resource != DEPLOYMENTS and owner != self.object.uid:
            return ObjectState("of another owner")
        return ObjectState("being deleted" if is_terminating(pod) else phase_label(pod), (_LEFT,))

    def summarize(self) -> str:
        """Return a summary of the remaining objects."""
        there = "it is there" if self.object.current is not None else "it is gone"
        return (
            there if self._selector is None else f"{there}; pods: {self.pods.summary() or 'none'}"
        )

    def result(self) -> None:
        """Return None: the object is gone."""

    def scope(self) -> EvidenceScope:
        """Return the object and its pods."""
        return EvidenceScope(
            self.namespace, objects=(self.object.reference(),), pods=self._selector
        )


@verb(limit="pod_deletion", kinds={"target": None}, summary="the deleted object")
def delete_and_wait(
    client: ApiClient,
    namespace: str,
    target: str,
    *,
    grace_period: int | None = None,
    propagation: Propagation = "Background",
    **options: Unpack[WaitOptions],
) -> None:
    """Delete an object and return once it is gone, with all pods of a controller.

    The object is deleted by the UID that it had when it was read: a new one of the same name is
    left alone, and the old one counts as gone. Upstream treats a missing object as deleted; here
    that is an error.

    Args:
        namespace: the namespace of the object; ignored for cluster-scoped kinds.
        target: `kind/name`; the kind by any name that kubectl accepts.
        grace_period: seconds until the object is killed; None for its own grace period.
        propagation: `Background`, `Foreground` or `Orphan`. Orphaned pods are not awaited.

    Raises:
        ApiError: the object does not exist (status 404), or the server refuses a request.
        WaitTimeout: something is left at the limit; names finalizers and pods.
    """
    session = ApiSession.of(client)
    check_namespace(namespace)
    if grace_period is not None:
        check_count("grace_period", grace_period)
    if propagation not in _PROPAGATION_POLICIES:
        raise InvalidArgument("propagation", propagation, "use Background, Foreground or Orphan")
    settings = resolve_options(options, timeout="pod_deletion", session=session)
    deadline = Deadline.after(settings.timeout, session.clock)
    with within_deadline(deadline, f"{target} could not be read"):
        resource, name = resolve_target(session, target, deadline)
        where = namespace if resource.namespaced else None
        stored_object = request_with_retry(
            lambda attempt_deadline: session.get(resource, name, where, deadline=attempt_deadline),
            deadline,
        )
    uid = stored_object["metadata"].get("uid") or ""
    selector = selector_of(resource, stored_object.get("spec") or {})
    troubles = WriteErrors(session, options)
    try:
        with within_deadline(deadline, f"{target} could not be deleted"):
            request_with_retry(
                lambda attempt_deadline: session.delete(
                    resource,
                    name,
                    where,
                    uid=uid or None,
                    grace_period_seconds=grace_period,
                    propagation_policy=propagation,
                    deadline=attempt_deadline,
                ),
                deadline,
                troubles,
            )
    except ApiError as error:
        # A previous attempt whose response was lost has deleted it.
        if error.status not in _GONE or troubles.count == 1:
            raise
    condition = DeletedWithPods(
        resource, where, name, uid, None if propagation == "Orphan" else selector
    )
    wait_for_condition(session, condition, settings, deadline)


@verb(limit="pod_client_deletion", summary="an object that is gone, by its UID")
def wait_for_gone(
    client: ApiClient,
    namespace: str,
    resource: Resource,
    name: str,
    uid: str,
    **options: Unpack[WaitOptions],
) -> None:
    """Return once an object that is being deleted is gone.

    A new object of the same name does not count.

    Args:
        namespace: the namespace of the object; ignored for cluster-scoped kinds.
        resource: its kind.
        name: its name.
        uid: its UID.

    Raises:
        ApiError: the server refuses a request.
        InvalidArgument: an option is invalid.
        WaitTimeout: the object exists at the limit; names finalizers.
    """
    session = ApiSession.of(client)
    settings = resolve_options(options, timeout="pod_client_deletion", session=session)
    where = namespace if resource.namespaced else None
    wait_for_condition(session, DeletedWithPods(resource, where, name, uid), settings)
