"""Waits on rollouts by kubectl's rules: of Deployments, DaemonSets and StatefulSets.

Source: kubectl/pkg/cmd/rollout/rollout_status.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack, cast

from pytest_kwait.client.discovery import match_resource
from pytest_kwait.client.resource import BUILT_IN, DAEMON_SETS, DEPLOYMENTS, STATEFUL_SETS
from pytest_kwait.client.session import Session
from pytest_kwait.engine.options import WaitOptions, check_count, resolve_options
from pytest_kwait.engine.targets import parse_target
from pytest_kwait.engine.verdicts import Failed, Met, Patience, Pending, Verdict
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.deployment.conditions import DeploymentCondition
from pytest_kwait.framework.operations.rollout_rules import (
    daemon_set_rollout,
    deployment_rollout,
    stateful_set_rollout,
)
from pytest_kwait.framework.pod.fields import controller_uid
from pytest_kwait.framework.workload.conditions import WorkloadCondition, judge_stuck_pods
from pytest_kwait.framework.workload.fields import count_of, replicas_of
from pytest_kwait.framework.workload.owned_pods import OwnedPods

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.client.resource import Resource
    from pytest_kwait.engine.object_counter import ObjectCounter

__all__ = ["DeploymentRollout", "SetRollout", "rollout_status", "wait_for_rollout_status"]

_GOAL = "roll out"
_KINDS = (DEPLOYMENTS, DAEMON_SETS, STATEFUL_SETS)


class DeploymentRollout(DeploymentCondition):
    """A Deployment is rolled out.

    Args:
        namespace: where it is.
        deployment: its name.
        revision: the revision that it must be at; None for any.

    Raises:
        InvalidArgument: a name that cannot be one.
    """

    def __init__(self, namespace: str, deployment: str, revision: int | None = None) -> None:
        at = "" if revision is None else f" at revision {revision}"
        super().__init__(namespace, deployment, f"{_GOAL}{at}", what="target")
        self._revision = revision

    def verdict(self) -> Verdict:
        """Judge by kubectl's rules, then by what keeps it from them."""
        absent = self.workload.missing_verdict()
        if absent is not None:
            return absent
        verdict = deployment_rollout(self.current, self._revision)
        if isinstance(verdict, Met):
            return verdict
        before = self.stale_status_verdict()
        if before is not None:
            return verdict if isinstance(before, Pending) else before
        if isinstance(verdict, Pending):
            return self.terminal_verdict(self.stuck()) or verdict
        if verdict.patience is not Patience.SHORT:
            return verdict
        return self.terminal_verdict(self.stuck(), verdict) or verdict


class SetRollout(WorkloadCondition):
    """A DaemonSet or a StatefulSet is rolled out.

    Only pods of its present revision can doom it: others are replaced.

    Args:
        resource: its kind.
        namespace: where it is.
        name: its name.

    Raises:
        InvalidArgument: a name that cannot be one.
    """

    def __init__(self, resource: Resource, namespace: str, name: str) -> None:
        self._daemons = resource == DAEMON_SETS
        # The label of a DaemonSet's pods by which it names their version in its own metadata.
        self._label = "pod-template-generation" if self._daemons else "controller-revision-hash"
        super().__init__(resource, namespace, name, _GOAL, None, OwnedPods(self._owner), "target")

    def _owner(self, pod: dict[str, Any]) -> str:
        labels = pod["metadata"].get("labels") or {}
        return f"{controller_uid(pod)} {labels.get(self._label)}"

    @property
    def tally(self) -> ObjectCounter | None:
        """The pods of its present revision."""
        if self.pods is None or self.workload.current is None:
            return None
        revision = self.workload.status.get("updateRevision")
        if self._daemons:
            notes = self.current["metadata"].get("annotations") or {}
            revision = notes.get("deprecated.daemonset.template.generation")
        return self.pods.of(f"{self.workload.uid} {revision}")

    def verdict(self) -> Verdict:
        """Judge by kubectl's rules, then by its pods."""
        absent = self.workload.missing_verdict()
        if absent is not None:
            return absent
        rule = daemon_set_rollout if self._daemons else stateful_set_rollout
        verdict = rule(self.current)
        if not isinstance(verdict, Pending):
            return verdict
        return self.workload.ending() or self._stuck() or verdict

    def _stuck(self) -> Failed | None:
        tally = self.tally
        if tally is None or self.stale_status_verdict() is not None:
            return None
        daemons = count_of(self.current, "desiredNumberScheduled")
        return judge_stuck_pods(tally, daemons if self._daemons else replicas_of(self.current))

    def seen(self) -> str:
        """Sum up the pods of its present revision."""
        if self.workload.current is None or self.tally is None:
            return ""
        return f"pods of the present revision: {self.tally.summary() or 'none'}"


def rollout_status(
    namespace: str, target: str, revision: int | None = None
) -> DeploymentRollout | SetRollout:
    """Return the condition of `wait_for_rollout_status`."""
    kind, name = parse_target("target", target)
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


def wait_for_rollout_status(
    client: ApiClient,
    namespace: str,
    target: str,
    revision: int | None = None,
    **options: Unpack[WaitOptions],
) -> dict[str, Any]:
    """Return a Deployment, DaemonSet or StatefulSet once it is rolled out by kubectl's rules.

    What is missing is said in kubectl's words. Beyond kubectl, what is not there yet is awaited, a
    rollout whose pods are stuck ends early, and one that is not there at the limit is an error.

    Args:
        client: the official client.
        namespace: where it is.
        target: `deployment/name`, `daemonset/name` or `statefulset/name`; kinds are named as for
            kubectl.
        revision: the revision that a Deployment must be at, as its annotation
            `deployment.kubernetes.io/revision` says; None for any.
        **options: `timeout` (default: `deployment`, 5 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: a progress deadline was missed, pods are stuck or
            refused, it is not updated by rolling, is at another revision, or was deleted.
        WaitTimeout: it did not come within the limit.

    Source: kubectl/pkg/polymorphichelpers/rollout_status.go.
    """
    awaited = rollout_status(namespace, target, revision)
    settings = resolve_options(options, timeout="deployment")
    return cast("dict[str, Any]", wait_for_condition(Session.of(client), awaited, settings))
