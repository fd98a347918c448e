"""The waits on Deployments, ReplicaSets and rollouts, as rows of the catalogue: data alone.

A row is name, arguments after client and namespace, summary, module, limit. The condition is made
by the function of the same module that has the wait's name without `wait_for_`.
"""

from __future__ import annotations

__all__ = ["WORKLOAD_WAITS"]

WORKLOAD_WAITS = (
    (
        "wait_for_deployment_complete",
        "deployment",
        "a deployment whose pods are all updated and available",
        "deployments",
        "deployment",
    ),
    (
        "wait_for_deployment_complete_and_check_rolling",
        "deployment",
        "the same, within the bounds of its rolling update at every step",
        "deployments",
        "deployment",
    ),
    (
        "wait_for_deployment_revision_and_image",
        "deployment, revision, image",
        "a deployment and its replica set at a revision, with an image",
        "deployments",
        "deployment",
    ),
    (
        "wait_for_deployment_updated_replicas_gte",
        "deployment, min_updated_replicas, desired_generation=None",
        "a deployment with enough updated pods",
        "deployments",
        "deployment",
    ),
    (
        "wait_for_deployment_with_condition",
        "deployment, reason, condition",
        "a deployment of which a condition has a reason",
        "deployments",
        "deployment",
    ),
    (
        "wait_for_observed_deployment",
        "deployment, desired_generation",
        "a deployment of which a generation has been observed",
        "deployments",
        "deployment_short",
    ),
    (
        "wait_for_ready_replica_set",
        "replica_set",
        "a replica set whose pods are all ready",
        "replica_sets",
        "replica_set",
    ),
    (
        "wait_for_replica_set_target_available_replicas",
        "replica_set, target_replicas",
        "a replica set with an exact number of available pods",
        "replica_sets",
        "replica_set",
    ),
    (
        "wait_for_replica_set_target_spec_replicas",
        "replica_set, target_replicas",
        "a replica set that is to have an exact number of pods",
        "replica_sets",
        "poll_short",
    ),
    (
        "wait_for_replica_set_desired_replicas",
        "replica_set",
        "a replica set with as many pods as it is to have",
        "replica_sets",
        "poll_short",
    ),
    (
        "wait_for_observed_replica_set",
        "replica_set, desired_generation",
        "a replica set of which a generation has been observed",
        "replica_sets",
        "poll_short",
    ),
    (
        "wait_for_rollout_status",
        "target, revision=None",
        "a deployment, daemon set or stateful set rolled out by kubectl's rules",
        "rollouts",
        "deployment",
    ),
)
"""Rows of the catalogue."""
