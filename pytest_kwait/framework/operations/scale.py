"""Scale an object and wait until exactly its pods exist and are ready.

Source: kubernetes/test/e2e/framework/resource/resources.go ScaleResource,
kubernetes/test/utils/update_resources.go ScaleResourceWithRetries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack, cast

from pytest_kwait.apimachinery.selectors import normalize_label_selector
from pytest_kwait.apimachinery.validation import check_namespace
from pytest_kwait.client.resource import (
    BUILT_IN,
    DEPLOYMENTS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
)
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.condition import (
    EvidenceScope,
    Failed,
    Grace,
    Met,
    Pending,
    Source,
    TerminalState,
    Verdict,
)
from pytest_kwait.engine.object_sinks import ObjectCounter, ObjectState
from pytest_kwait.engine.options import WaitOptions, check_count, resolve_options
from pytest_kwait.engine.pod_fields import (
    is_finished,
    is_terminating,
    phase_label,
    readiness_label,
)
from pytest_kwait.engine.retry import request_with_retry, within_deadline
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.errors import ApiError, InvalidArgument
from pytest_kwait.framework.cluster.webhooks import WriteErrors
from pytest_kwait.framework.named_objects import (
    NamedTarget,
    ObjectCondition,
    controller_uid,
    count_noun,
    resolve_target,
)
from pytest_kwait.framework.pod.list_conditions import SetPodFields, is_running_and_ready
from pytest_kwait.framework.registry import verb
from pytest_kwait.framework.terminal_states.pods import detect_owned_pod_failure
from pytest_kwait.framework.terminal_states.workloads import (
    detect_progress_deadline_exceeded,
    detect_replica_failure,
)
from pytest_kwait.framework.workload.conditions import ALIVE, detect_stuck_pods
from pytest_kwait.framework.workload.fields import count_of, describe_generation_lag, replicas_of
from pytest_kwait.wait.backoff import Backoff, exponential_backoff

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.apimachinery.selectors import Selector
    from pytest_kwait.client.resource import Resource

_OWNERS = (REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS)
"""The kinds that control their pods themselves."""
_THERE, _READY = "there", "ready"
_CONFLICTS = Backoff(0.01, factor=1.0, jitter=0.1, steps=5)
"""The pauses of client-go's retry.DefaultRetry."""


class ScaledPods(ObjectCondition):
    """A scaled object and its pods.

    Args:
        selector: its pods' labels.
        replicas: the number of pods it was scaled to.
    """

    def __init__(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str,
        selector: str,
        replicas: int,
    ) -> None:
        super().__init__(resource, namespace, name, uid=uid)
        self.pods = ObjectCounter(self._state)
        self._known = BUILT_IN.get(resource.qualified) == resource
        self._replicas = replicas
        self._selector = selector
        self._sources = (
            *self._sources,
            Source(PODS, namespace, self.pods, selector=selector, fields=SetPodFields),
        )

    @property
    def goal(self) -> str:
        """The awaited state."""
        return f"have exactly {count_noun(self._replicas, 'pod')}, Running and ready"

    def verdict(self) -> Verdict:
        """Decide by the object's own counts, then by the pods, terminating ones included."""
        absent = self.object.missing_verdict() or self.object.ending()
        current = self.object.current
        if absent is not None or current is None:
            return absent or Pending("not found yet")
        replicas = self._replicas
        if self._known and (now := replicas_of(current)) != replicas:
            return Failed(f"it was scaled to {now} meanwhile", Grace.LONG)
        # Controllers of custom resources need not report an observed generation.
        tells = self._known or count_of(current, "observedGeneration")
        if tells and (lag := describe_generation_lag(current)):
            return Pending(lag)
        ready, there = self.pods.count(_READY), self.pods.count(_THERE)
        if ready == there == replicas:
            # Without an observed generation, its controller may not know the number yet.
            return self._own_counts(current) or Met(settled=bool(tells))
        return (
            self._detect_failure(current)
            or detect_stuck_pods(self.pods, replicas)
            or Pending(f"{ready} of {replicas} ready: {self.pods.summary() or 'no pods'}")
        )

    def _own_counts(self, current: dict[str, Any]) -> Pending | None:
        # The returned object must agree with the observed pods.
        if self._known:
            for field in ("replicas", "readyReplicas"):
                if (number := count_of(current, field)) != self._replicas:
                    return Pending(f"status.{field} is {number}")
        return None

    def _detect_failure(self, current: dict[str, Any]) -> Failed | None:
        terminal = None
        if self.object.resource == DEPLOYMENTS:
            terminal = detect_progress_deadline_exceeded(current)
        if terminal is None and self._known and self.pods.count(ALIVE) < self._replicas:
            terminal = detect_replica_failure(current)
        return None if terminal is None else Failed(terminal.reason, terminal.grace)

    def _state(self, pod: dict[str, Any], before: TerminalState | None) -> ObjectState:
        if self.object.resource in _OWNERS and controller_uid(pod) != self.object.uid:
            return ObjectState("of another owner")
        if is_terminating(pod):
            return ObjectState("being deleted", (_THERE,))
        if is_finished(pod):
            # Its controller replaces it.
            return ObjectState(phase_label(pod))
        if is_running_and_ready(pod):
            return ObjectState("ready", (_THERE, ALIVE, _READY))
        label = readiness_label(pod)
        return ObjectState(
            label, (_THERE, ALIVE), terminal_state=detect_owned_pod_failure(pod, before)
        )

    def summarize(self) -> str:
        """Return a summary of its pods."""
        return f"pods: {self.pods.summary() or 'none'}"

    def scope(self) -> EvidenceScope:
        """Return the object and its pods."""
        return EvidenceScope(
            self.namespace,
            objects=(self.object.reference(),),
            pods=self._selector,
            suspects=self.pods.suspects(),
        )


@verb(limit="controlled_pods", kinds={"target": None}, summary="the scaled object")
def scale(
    client: ApiClient,
    namespace: str,
    target: str,
    replicas: int,
    *,
    selector: Selector | None = None,
    **options: Unpack[WaitOptions],
) -> dict[str, Any]:
    """Scale an object and return it once exactly its pods are Running and ready.

    It writes the `scale` subresource, again after a conflict. Terminating pods count until they are
    gone, so scaling down waits for their end; upstream only requires enough Running pods. The scale
    of a custom resource may name no selector of pods: then `selector` is needed. Jobs have no
    scale: set their parallelism.

    Args:
        namespace: the namespace of the object.
        target: `deployment/web`, `statefulset/web`, `rs/web`, `rc/web` or a custom resource.
        replicas: the number of pods; 0 or more.
        selector: the labels of its pods, as text or mapping; None for those that its scale names.

    Raises:
        ApiError: the object does not exist, or the server refuses a request.
        InvalidArgument: an argument is invalid, the kind has no scale, or nothing names its pods.
        WaitFailed: its pods are stuck or refused, or it was deleted or scaled to another number.
        WaitTimeout: the pods were not ready within the limit.
    """
    session = ApiSession.of(client)
    check_namespace(namespace)
    check_count("replicas", replicas)
    labels = _normalize_selector(selector)
    settings = resolve_options(options, timeout="controlled_pods", session=session)
    deadline = Deadline.after(settings.timeout, session.clock)
    with within_deadline(deadline, "what kinds the server has could not be found out"):
        scale_target = resolve_target(session, target, deadline)
    if "scale" not in scale_target.resource.subresources or not scale_target.resource.namespaced:
        raise InvalidArgument("target", target, f"a {scale_target.resource.kind} has no scale")
    with within_deadline(deadline, f"the scale of {target} could not be read"):
        before = request_with_retry(
            lambda attempt_deadline: session.get(
                scale_target.resource,
                scale_target.name,
                namespace,
                subresource="scale",
                deadline=attempt_deadline,
            ),
            deadline,
        )
    labels = labels or (before.get("status") or {}).get("selector")
    if not labels:
        raise InvalidArgument(
            "selector", None, f"the scale of {target} names no pods: give their labels"
        )
    with within_deadline(deadline, f"{target} could not be scaled"):
        _write_replicas(session, scale_target, namespace, replicas, deadline)
    condition = ScaledPods(
        scale_target.resource,
        namespace,
        scale_target.name,
        uid=before["metadata"].get("uid") or "",
        selector=labels,
        replicas=replicas,
    )
    return cast("dict[str, Any]", wait_for_condition(session, condition, settings, deadline))


def _normalize_selector(selector: Selector | None) -> str | None:
    """Return the argument `selector` as text; None if it is not given."""
    labels = normalize_label_selector(selector)
    if selector is not None and not labels:
        raise InvalidArgument("selector", selector, "use labels that select something")
    return labels


def _write_replicas(
    session: ApiSession,
    scale_target: NamedTarget,
    namespace: str,
    replicas: int,
    deadline: Deadline,
) -> None:
    """Write the number of replicas; retry after a conflict."""
    conflicts: list[ApiError] = []

    def written() -> bool:
        try:
            request_with_retry(
                lambda attempt_deadline: session.patch(
                    scale_target.resource,
                    scale_target.name,
                    {"spec": {"replicas": replicas}},
                    namespace,
                    subresource="scale",
                    deadline=attempt_deadline,
                ),
                deadline,
                WriteErrors(session),
            )
        except ApiError as error:
            if error.status != 409 or len(conflicts) == _CONFLICTS.steps - 1:
                raise
            conflicts.append(error)
            return False
        return True

    exponential_backoff(_CONFLICTS, written, clock=session.clock)
