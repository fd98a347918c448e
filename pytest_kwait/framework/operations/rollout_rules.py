"""How far a rollout is, by the rules and in the words of `kubectl rollout status`.

Pure functions on the API's JSON, whole or trimmed; only what was not observed, or cannot be told,
differs from kubectl, and says so.

Source: kubectl/pkg/polymorphichelpers/rollout_status.go.
"""

from __future__ import annotations

from typing import Any

from pytest_kwait.engine.verdicts import Failed, Met, Patience, Pending, Verdict
from pytest_kwait.framework.terminal_states.workloads import detect_progress_deadline_exceeded

__all__ = ["daemon_set_rollout", "deployment_rollout", "stateful_set_rollout"]

_ONLY_ROLLING = "rollout status is only available for RollingUpdate strategy type"
_REVISION = "deployment.kubernetes.io/revision"


def deployment_rollout(deployment: dict[str, Any], revision: int | None = None) -> Verdict:
    """Return how far a Deployment is.

    A missed progress deadline fails as for kubectl, but must hold for a few seconds: after a
    rollback the condition may outlast the new spec for a moment. Of a paused Deployment it says
    nothing. A revision that is yet to come is awaited where kubectl fails at once.

    Args:
        deployment: the Deployment.
        revision: the revision that it must be at; None for any.
    """
    name, status = deployment["metadata"].get("name"), deployment.get("status") or {}
    running = _revision(deployment)
    if revision is not None and running > revision:
        return Failed(_wrong_revision(revision, running))
    if _int_field(status, "observedGeneration") < _generation(deployment):
        return Pending("Waiting for deployment spec update to be observed...")
    if revision is not None and running != revision:
        return Failed(_wrong_revision(revision, running), Patience.LONG)
    if detect_progress_deadline_exceeded(deployment) is not None:
        return Failed(f'deployment "{name}" exceeded its progress deadline', Patience.SHORT)
    wanted, updated = _replicas(deployment), _int_field(status, "updatedReplicas")
    there, available = _int_field(status, "replicas"), _int_field(status, "availableReplicas")
    lead = f'Waiting for deployment "{name}" rollout to finish'
    if updated < wanted:
        return Pending(f"{lead}: {updated} out of {wanted} new replicas have been updated...")
    if there > updated:
        return Pending(f"{lead}: {there - updated} old replicas are pending termination...")
    if available < updated:
        return Pending(f"{lead}: {available} of {updated} updated replicas are available...")
    return Met()


def daemon_set_rollout(daemon_set: dict[str, Any]) -> Verdict:
    """Return how far a DaemonSet is; one that is not updated by rolling fails at once.

    A status that nobody has written yet does not count: with a generation of 0, which no server
    gives, kubectl takes it for a rollout to no node at all.
    """
    name, status = daemon_set["metadata"].get("name"), daemon_set.get("status") or {}
    if _update_type(daemon_set) != "RollingUpdate":
        return Failed(_ONLY_ROLLING)
    observed = _int_field(status, "observedGeneration")
    if not observed or observed < _generation(daemon_set):
        return Pending("Waiting for daemon set spec update to be observed...")
    wanted = _int_field(status, "desiredNumberScheduled")
    updated = _int_field(status, "updatedNumberScheduled")
    available = _int_field(status, "numberAvailable")
    lead = f'Waiting for daemon set "{name}" rollout to finish'
    if updated < wanted:
        return Pending(f"{lead}: {updated} out of {wanted} new pods have been updated...")
    if available < wanted:
        return Pending(f"{lead}: {available} of {wanted} updated pods are available...")
    return Met()


def stateful_set_rollout(stateful_set: dict[str, Any]) -> Verdict:
    """Return how far a StatefulSet is; one that is not updated by rolling fails at once.

    With parameters of a rolling update, which servers fill in, the pods above the partition count;
    without, the revisions of all.
    """
    status, wanted = stateful_set.get("status") or {}, _replicas(stateful_set)
    if _update_type(stateful_set) != "RollingUpdate":
        return Failed(_ONLY_ROLLING)
    observed = _int_field(status, "observedGeneration")
    if not observed or observed < _generation(stateful_set):
        return Pending("Waiting for statefulset spec update to be observed...")
    ready, updated = _int_field(status, "readyReplicas"), _int_field(status, "updatedReplicas")
    if ready < wanted:
        return Pending(f"Waiting for {wanted - ready} pods to be ready...")
    rolling = ((stateful_set.get("spec") or {}).get("updateStrategy") or {}).get("rollingUpdate")
    if rolling is not None:
        above = wanted - _int_field(rolling, "partition")
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


def _replicas(workload: dict[str, Any]) -> int:
    replicas = (workload.get("spec") or {}).get("replicas")
    return replicas if isinstance(replicas, int) else 1


def _generation(workload: dict[str, Any]) -> int:
    return _int_field(workload["metadata"], "generation")


def _revision(deployment: dict[str, Any]) -> int:
    text = (deployment["metadata"].get("annotations") or {}).get(_REVISION) or ""
    return int(text) if text.isdecimal() else 0


def _update_type(workload: dict[str, Any]) -> str:
    strategy = (workload.get("spec") or {}).get("updateStrategy") or {}
    return strategy.get("type") or "RollingUpdate"
