"""`kubectl rollout`: wait for the status of a rollout, restart a workload, undo a rollout.

Progress follows the rules and messages of `kubectl rollout status`, for Deployments, DaemonSets
and StatefulSets; only states that kubectl does not observe or cannot decide differ. `restart`
replaces the pods of a workload one after another, as `kubectl rollout restart` does;
`rollout_undo` gives it the template of an earlier revision.

Source: kubectl/pkg/polymorphichelpers/rollout_status.go,
kubectl/pkg/cmd/rollout/rollout_status.go, kubectl/pkg/polymorphichelpers/objectrestarter.go and
kubectl/pkg/polymorphichelpers/rollback.go.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Unpack, cast

from pytest_kwait.apimachinery.times import format_micro_time
from pytest_kwait.client.discovery import match_resource
from pytest_kwait.client.resource import (
    BUILT_IN,
    CONTROLLER_REVISIONS,
    DAEMON_SETS,
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
)
from pytest_kwait.client.session import ApiSession
from pytest_kwait.client.write_options import JSON_PATCH, STRATEGIC_MERGE_PATCH
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.condition import Failed, Grace, Met, Pending, Verdict
from pytest_kwait.engine.options import WaitOptions, check_count, parse_target, resolve_options
from pytest_kwait.engine.retry import request_with_retry, within_deadline
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.cluster.webhooks import WriteErrors
from pytest_kwait.framework.deployment import DeploymentCondition
from pytest_kwait.framework.named_objects import controller_uid, count_noun
from pytest_kwait.framework.registry import condition_of, verb, wait
from pytest_kwait.framework.terminal_states.workloads import detect_progress_deadline_exceeded
from pytest_kwait.framework.workload.conditions import (
    REMAINING,
    OwnedPods,
    WorkloadCondition,
    detect_stuck_pods,
)
from pytest_kwait.framework.workload.fields import count_of, replicas_of, selector_of

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.client.resource import Resource
    from pytest_kwait.engine.object_sinks import ObjectCounter
    from pytest_kwait.framework.registry import ConditionOf

RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"
"""The annotation of the pod template that kubectl changes to replace all pods."""

_ONLY_ROLLING = "rollout status is only available for RollingUpdate strategy type"
_REVISION = "deployment.kubernetes.io/revision"
_GOAL = "roll out"
_KINDS = (DEPLOYMENTS, DAEMON_SETS, STATEFUL_SETS)

_NOT_ROLLED_BACK = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        _REVISION,
        "deployment.kubernetes.io/revision-history",
        "deployment.kubernetes.io/desired-replicas",
        "deployment.kubernetes.io/max-replicas",
        "deprecated.deployment.rollback.to",
    }
)
"""Annotations of a Deployment that a rollback leaves as they are."""


def deployment_rollout(deployment: dict[str, Any], revision: int | None = None) -> Verdict:
    """Return the rollout status of a Deployment.

    A missed progress deadline fails as for kubectl, but must hold for a few seconds: after a
    rollback the condition may outlast the new spec for a moment. It is ignored on a paused
    Deployment. A future revision is awaited where kubectl fails at once.

    Args:
        revision: the required revision; None for any.
    """
    name, status = deployment["metadata"].get("name"), deployment.get("status") or {}
    running = _revision(deployment)
    if revision is not None and running > revision:
        return Failed(_wrong_revision(revision, running))
    if _int_field(status, "observedGeneration") < _generation(deployment):
        return Pending("Waiting for deployment spec update to be observed...")
    if revision is not None and running != revision:
        return Failed(_wrong_revision(revision, running), Grace.LONG)
    if detect_progress_deadline_exceeded(deployment) is not None:
        return Failed(f'deployment "{name}" exceeded its progress deadline', Grace.SHORT)
    replicas, updated = replicas_of(deployment), _int_field(status, "updatedReplicas")
    there, available = _int_field(status, "replicas"), _int_field(status, "availableReplicas")
    lead = f'Waiting for deployment "{name}" rollout to finish'
    if updated < replicas:
        return Pending(f"{lead}: {updated} out of {replicas} new replicas have been updated...")
    if there > updated:
        return Pending(f"{lead}: {there - updated} old replicas are pending termination...")
    if available < updated:
        return Pending(f"{lead}: {available} of {updated} updated replicas are available...")
    return Met()


def daemon_set_rollout(daemon_set: dict[str, Any]) -> Verdict:
    """Return the rollout status of a DaemonSet; fails at once unless updated by rolling.

    A status that was never written does not count: with a generation of 0, which no server sets,
    kubectl takes it for a rollout to no nodes.
    """
    name, status = daemon_set["metadata"].get("name"), daemon_set.get("status") or {}
    if _update_type(daemon_set) != "RollingUpdate":
        return Failed(_ONLY_ROLLING)
    observed = _int_field(status, "observedGeneration")
    if not observed or observed < _generation(daemon_set):
        return Pending("Waiting for daemon set spec update to be observed...")
    pod_count = _int_field(status, "desiredNumberScheduled")
    updated = _int_field(status, "updatedNumberScheduled")
    available = _int_field(status, "numberAvailable")
    lead = f'Waiting for daemon set "{name}" rollout to finish'
    if updated < pod_count:
        return Pending(f"{lead}: {updated} out of {pod_count} new pods have been updated...")
    if available < pod_count:
        return Pending(f"{lead}: {available} of {pod_count} updated pods are available...")
    return Met()


def stateful_set_rollout(stateful_set: dict[str, Any]) -> Verdict:
    """Return the rollout status of a StatefulSet; fails at once unless updated by rolling.

    With rolling update parameters, which servers default, the pods above the partition count;
    without them, the revisions of all pods.
    """
    status, replicas = stateful_set.get("status") or {}, replicas_of(stateful_set)
    if _update_type(stateful_set) != "RollingUpdate":
        return Failed(_ONLY_ROLLING)
    observed = _int_field(status, "observedGeneration")
    if not observed or observed < _generation(stateful_set):
        return Pending("Waiting for statefulset spec update to be observed...")
    ready, updated = _int_field(status, "readyReplicas"), _int_field(status, "updatedReplicas")
    if ready < replicas:
        return Pending(f"Waiting for {replicas - ready} pods to be ready...")
    rolling = ((stateful_set.get("spec") or {}).get("updateStrategy") or {}).get("rollingUpdate")
    if rolling is not None:
        above = replicas - _int_field(rolling, "partition")
        if updated >= above:
            return Met()
        lead = "Waiting for partitioned roll out to finish"
        return Pending(f"{lead}: {updated} out of {above} new pods have been updated...")
    update = status.get("updateRevision")
    if update != status.get("currentRevision"):
        lead = "waiting for statefulset rolling update to complete"
        return Pending(f"{lead} {updated} pods at revision {update}...")
    return Met()


def _wrong_revision(desired: int, running: int) -> str:
    return f"desired revision ({desired}) is different from the running revision ({running})"


def _int_field(fields: dict[str, Any], name: str) -> int:
    value = fields.get(name)
    return value if isinstance(value, int) else 0


def _generation(workload: dict[str, Any]) -> int:
    return _int_field(workload["metadata"], "generation")


def _revision(deployment: dict[str, Any]) -> int:
    text = (deployment["metadata"].get("annotations") or {}).get(_REVISION) or ""
    return int(text) if text.isdecimal() else 0


def _update_type(workload: dict[str, Any]) -> str:
    strategy = (workload.get("spec") or {}).get("updateStrategy") or {}
    return strategy.get("type") or "RollingUpdate"


def _describe_old_pods(count: int) -> Pending | None:
    """Return the verdict while there are old pods; None without any."""
    if not count:
        return None
    be = "is" if count == 1 else "are"
    return Pending(f"{count_noun(count, 'pod')} of earlier revisions {be} not gone yet")


class DeploymentRollout(DeploymentCondition):
    """A Deployment is rolled out.

    Args:
        deployment: its name.
        revision: the required revision; None for any.
    """

    def __init__(self, namespace: str, deployment: str, revision: int | None = None) -> None:
        at = "" if revision is None else f" at revision {revision}"
        super().__init__(namespace, deployment, f"{_GOAL}{at}", what="target")
        self._revision = revision
        self.replaces_pods = False
        """True if pods of earlier revisions must be gone, as after a restart."""
        self._earlier_sets: set[str] = set()

    def _old_pods(self) -> Pending | None:
        """Return the verdict while pods of earlier ReplicaSets, removed ones too, are there."""
        if not self.replaces_pods or self.pods is None or self.tally is None:
            return None
        # A new ReplicaSet may be seen before the revision that it gives the Deployment.
        newest = _revision(self.current)
        self._earlier_sets |= {
            replica_set["metadata"].get("uid") or ""
            for replica_set in self.family.others
            if _revision(replica_set) < newest
        }
        current = self.family.current
        if current is not None:
            # The revision that a roll-back gives an earlier set may be seen late.
            self._earlier_sets.discard(current["metadata"].get("uid") or "")
        return _describe_old_pods(self.pods.remaining(self._earlier_sets.__contains__))

    def verdict(self) -> Verdict:
        """Decide by kubectl's rules, then by obstacles to the rollout."""
        absent = self.object.missing_verdict()
        if absent is not None:
            return absent
        verdict = deployment_rollout(self.current, self._revision)
        old = self._old_pods()
        if isinstance(verdict, Met):
            return old or verdict
        before = self.stale_status_verdict()
        if before is not None:
            return verdict if isinstance(before, Pending) else before
        if isinstance(verdict, Pending):
            return self.terminal_verdict(self.stuck()) or verdict
        if verdict.grace is not Grace.SHORT:
            return verdict
        return self.terminal_verdict(self.stuck(), verdict) or verdict


class SetRollout(WorkloadCondition):
    """A DaemonSet or a StatefulSet is rolled out.

    Only pods of its current revision can fail it: others are replaced.
    """

    def __init__(self, resource: Resource, namespace: str, name: str) -> None:
        self._daemons = resource == DAEMON_SETS
        # The pod label that holds the revision; a DaemonSet has its own in its metadata.
        self._label = "pod-template-generation" if self._daemons else "controller-revision-hash"
        super().__init__(resource, namespace, name, _GOAL, None, OwnedPods(self._owner), "target")
        self.replaces_pods = False
        """True if pods of earlier revisions must be gone, as after a restart."""

    def _owner(self, pod: dict[str, Any]) -> str:
        labels = pod["metadata"].get("labels") or {}
        return f"{controller_uid(pod)} {labels.get(self._label)}"

    @property
    def tally(self) -> ObjectCounter | None:
        """The pods of its current revision."""
        if self.pods is None or self.object.current is None:
            return None
        revision = self.object.status.get("updateRevision")
        if self._daemons:
            notes = self.current["metadata"].get("annotations") or {}
            revision = notes.get("deprecated.daemonset.template.generation")
        return self.pods.of(f"{self.object.uid} {revision}")

    def verdict(self) -> Verdict:
        """Decide by kubectl's rules, then by its pods."""
        absent = self.object.missing_verdict()
        if absent is not None:
            return absent
        rule = daemon_set_rollout if self._daemons else stateful_set_rollout
        verdict = rule(self.current)
        if isinstance(verdict, Met):
            return self._old_pods() or verdict
        if not isinstance(verdict, Pending):
            return verdict
        return self.object.ending() or self._stuck() or verdict

    def _old_pods(self) -> Pending | None:
        """Return the verdict while pods of earlier revisions are there.

        A pod of a StatefulSet ends before the next one of its name is created, and pods below a
        partition stay as they are.
        """
        pods, tally = self.pods, self.tally
        if not self.replaces_pods or not self._daemons or pods is None or not tally:
            return None
        all_pods = pods.remaining(lambda owner: owner.startswith(f"{self.object.uid} "))
        return _describe_old_pods(all_pods - tally.count(REMAINING))

    def _stuck(self) -> Failed | None:
        tally = self.tally
        if tally is None or self.stale_status_verdict() is not None:
            return None
        daemons = count_of(self.current, "desiredNumberScheduled")
        return detect_stuck_pods(tally, daemons if self._daemons else replicas_of(self.current))

    def summarize(self) -> str:
        """Return a summary of the pods of its current revision."""
        if self.object.current is None or self.tally is None:
            return ""
        return f"pods of the present revision: {self.tally.summary() or 'none'}"


@wait(
    limit="deployment",
    kinds={"target": None},
    summary="a deployment, daemon set or stateful set rolled out by kubectl's rules",
)
def wait_for_rollout_status(
    client: ApiClient,
    namespace: str,
    target: str,
    revision: int | None = None,
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any]]:
    """Return a Deployment, DaemonSet or StatefulSet once it is rolled out by kubectl's rules.

    Messages are worded as kubectl's. Beyond kubectl, a missing object is awaited, a rollout with
    stuck pods fails early, and an incomplete rollout at the limit is an error.

    Args:
        target: `deployment/name`, `daemonset/name` or `statefulset/name`; kinds are named as for
            kubectl.
        revision: the required revision of a Deployment, by its annotation
            `deployment.kubernetes.io/revision`; None for any.

    Raises:
        WaitFailed: a progress deadline was missed, pods are stuck or refused, or the object is not
            updated by rolling, has another revision, or was deleted.

    Source: kubectl/pkg/polymorphichelpers/rollout_status.go.
    """
    kind, name, _ = parse_target("target", target)
    resource = match_resource(BUILT_IN.values(), kind, None)
    if not name or resource is None or resource not in _KINDS:
        raise InvalidArgument(
            "target", target, "use 'deployment/name', 'daemonset/name' or 'statefulset/name'"
        )
    if revision is not None:
        check_count("revision", revision, least=1)
        if resource != DEPLOYMENTS:
            raise InvalidArgument("revision", revision, "only a deployment can be asked for one")
    if resource == DEPLOYMENTS:
        return DeploymentRollout(namespace, name, revision)
    return SetRollout(resource, namespace, name)


@verb(limit="deployment", kinds={"target": None}, summary="the restarted object")
def restart(
    client: ApiClient, namespace: str, target: str, **options: Unpack[WaitOptions]
) -> dict[str, Any]:
    """Restart a workload by replacing all its pods; return it once rolled out.

    Beyond a rollout's status, the earlier pods must be gone.
    Like kubectl, this refuses a paused Deployment; beyond kubectl, it also refuses a workload that
    is not updated by rolling, where a restart has no effect. kubectl records the time in whole
    seconds and refuses a second restart within one; here the time is finer.

    Args:
        namespace: the namespace of the workload.
        target: `deployment/web`, `statefulset/web` or `daemonset/web`.

    Raises:
        ApiError: the workload does not exist, or the server refuses a request.
        InvalidArgument: an argument is invalid, or the workload cannot be restarted.
        WaitFailed: the new pods are stuck or refused, a progress deadline was missed, or the
            workload was deleted.
        WaitTimeout: the rollout did not complete within the limit.
    """
    session = ApiSession.of(client)
    condition = condition_of(wait_for_rollout_status)(namespace, target)
    settings = resolve_options(options, timeout="deployment", session=session)
    deadline = Deadline.after(settings.timeout, session.clock)
    resource, name = condition.object.resource, condition.object.name
    with within_deadline(deadline, f"{target} could not be read"):
        before = request_with_retry(
            lambda attempt_deadline: session.get(
                resource, name, namespace, deadline=attempt_deadline
            ),
            deadline,
        )
    spec = before.get("spec") or {}
    _check_rolls_out(target, spec)
    stamp = {RESTARTED_AT: format_micro_time(session.clock.time())}
    patch = {"spec": {"template": {"metadata": {"annotations": stamp}}}}
    with within_deadline(deadline, f"{target} could not be restarted"):
        request_with_retry(
            lambda attempt_deadline: session.patch(
                resource, name, patch, namespace, deadline=attempt_deadline
            ),
            deadline,
            WriteErrors(session),
        )
    condition.object.uid = before["metadata"].get("uid") or ""
    condition.replaces_pods = True
    return cast("dict[str, Any]", wait_for_condition(session, condition, settings, deadline))


def _check_rolls_out(target: str, spec: dict[str, Any]) -> None:
    """Check that a changed template replaces the pods of a workload.

    Raises:
        InvalidArgument: it is paused, or not updated by rolling.
    """
    if spec.get("paused"):
        raise InvalidArgument("target", target, "it is paused: resume it first")
    strategy = (spec.get("updateStrategy") or {}).get("type")
    if strategy not in (None, "RollingUpdate"):
        raise InvalidArgument(
            "target", target, f"its update strategy is {strategy}: delete its pods instead"
        )


@verb(limit="deployment", kinds={"target": None}, summary="the object with an earlier template")
def rollout_undo(
    client: ApiClient,
    namespace: str,
    target: str,
    to_revision: int | None = None,
    **options: Unpack[WaitOptions],
) -> dict[str, Any]:
    """Roll a workload back to an earlier revision; return it once rolled out.

    As `kubectl rollout undo`, and beyond it the pods of other revisions must be gone. Nothing is
    written if the workload has that revision's template already.

    Args:
        namespace: the namespace of the workload.
        target: `deployment/web`, `statefulset/web` or `daemonset/web`.
        to_revision: the revision; None, or 0 as for kubectl, for the one before the newest.

    Raises:
        ApiError: the workload does not exist, or the server refuses a request.
        InvalidArgument: there is no such revision, the Deployment is paused, or the workload is
            not updated by rolling.
        WaitFailed: the pods of that revision are stuck or refused, or the workload was deleted.
        WaitTimeout: the rollout did not complete within the limit.
    """
    session = ApiSession.of(client)
    condition = condition_of(wait_for_rollout_status)(namespace, target)
    if to_revision is not None:
        check_count("to_revision", to_revision)
    settings = resolve_options(options, timeout="deployment", session=session)
    deadline = Deadline.after(settings.timeout, session.clock)
    resource, name = condition.object.resource, condition.object.name
    with within_deadline(deadline, f"{target} could not be rolled back"):
        stored_object = request_with_retry(
            lambda attempt_deadline: session.get(
                resource, name, namespace, deadline=attempt_deadline
            ),
            deadline,
        )
        spec = stored_object.get("spec") or {}
        _check_rolls_out(target, spec)
        revisions = REPLICA_SETS if resource == DEPLOYMENTS else CONTROLLER_REVISIONS
        listed = request_with_retry(
            lambda attempt_deadline: session.list(
                revisions,
                namespace,
                label_selector=selector_of(resource, spec),
                deadline=attempt_deadline,
            ),
            deadline,
        )
        uid = stored_object["metadata"].get("uid") or ""
        history = {
            _revision(revision_object)
            if resource == DEPLOYMENTS
            else _int_field(revision_object, "revision"): revision_object
            for revision_object in (item.object for item in listed.items)
            if controller_uid(revision_object) == uid
        }
        history.pop(0, None)
        body = _rollback_patch(stored_object, history, target, to_revision or None, resource)
        if body is not None:
            content_type = JSON_PATCH if isinstance(body, list) else STRATEGIC_MERGE_PATCH
            request_with_retry(
                lambda attempt_deadline: session.patch(
                    resource,
                    name,
                    body,
                    namespace,
                    content_type=content_type,
                    deadline=attempt_deadline,
                ),
                deadline,
                WriteErrors(session),
            )
    condition.object.uid = uid
    condition.replaces_pods = True
    return cast("dict[str, Any]", wait_for_condition(session, condition, settings, deadline))


def _rollback_patch(
    workload: dict[str, Any],
    history: dict[int, dict[str, Any]],
    target: str,
    to_revision: int | None,
    resource: Resource,
) -> dict[str, Any] | list[dict[str, Any]] | None:
    """Return the patch of a rollback; None if the workload has that template already."""
    known = sorted(history)
    if to_revision is not None and to_revision not in history:
        valid = f"{target} has the revisions {', '.join(map(str, known)) or 'none'}"
        raise InvalidArgument("to_revision", to_revision, valid)
    if to_revision is None and len(known) < 2:
        raise InvalidArgument("target", target, "it has no earlier revision")
    chosen = history[known[-2] if to_revision is None else to_revision]
    if resource != DEPLOYMENTS:
        data: dict[str, Any] = chosen.get("data") or {}
        newest = history[known[-1]].get("data")
        return None if data == newest else data
    template = copy.deepcopy((chosen.get("spec") or {}).get("template") or {})
    labels = template.get("metadata", {}).get("labels") or {}
    labels.pop("pod-template-hash", None)
    if template == (workload.get("spec") or {}).get("template"):
        return None
    own = workload["metadata"].get("annotations") or {}
    earlier = chosen["metadata"].get("annotations") or {}
    annotations = {name: own[name] for name in own if name in _NOT_ROLLED_BACK} | {
        name: value for name, value in earlier.items() if name not in _NOT_ROLLED_BACK
    }
    return [
        {"op": "replace", "path": "/spec/template", "value": template},
        {"op": "replace", "path": "/metadata/annotations", "value": annotations},
    ]
