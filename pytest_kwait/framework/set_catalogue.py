"""Rows of the catalogue: StatefulSets, DaemonSets, ReplicationControllers, and verbs that wait.

A row is name, arguments after client and namespace, summary, module, limit. The condition is made
by the function of the same module that has the wait's name without `wait_for_`.
"""

from __future__ import annotations

__all__ = ["SET_WAITS", "VERB_ROWS"]

SET_WAITS = (
    (
        "wait_for_stateful_set_running",
        "stateful_set, pods_running, pods_ready",
        "a stateful set of which so many pods run, the first of them ready",
        "stateful_sets",
        "stateful_set",
    ),
    (
        "wait_for_stateful_set_running_and_ready",
        "stateful_set, count",
        "a stateful set's exact number of pods, all Running and ready",
        "stateful_sets",
        "stateful_set",
    ),
    (
        "wait_for_stateful_set_pod_ready",
        "stateful_set, pod",
        "one pod of a stateful set that is Running and ready",
        "stateful_sets",
        "stateful_set",
    ),
    (
        "wait_for_stateful_set_status_replicas",
        "stateful_set, count",
        "a stateful set that counts so many pods",
        "stateful_sets",
        "stateful_set",
    ),
    (
        "wait_for_stateful_set_status_ready_replicas",
        "stateful_set, count",
        "a stateful set that counts so many ready pods",
        "stateful_sets",
        "stateful_set",
    ),
    (
        "wait_for_stateful_set_status_available_replicas",
        "stateful_set, count",
        "a stateful set that counts so many available pods",
        "stateful_sets",
        "stateful_set",
    ),
    (
        "wait_for_daemon_set_running_on_all_nodes",
        "daemon_set",
        "a daemon set's one available pod on each node that it is to run on",
        "daemon_sets",
        "pod_start",
    ),
    (
        "wait_for_daemon_set_pods_on_nodes",
        "daemon_set, nodes",
        "a daemon set's one available pod on each of these nodes alone",
        "daemon_sets",
        "pod_start",
    ),
    (
        "wait_for_daemon_set_present_on_nodes",
        "daemon_set, count",
        "a daemon set's one started pod on each of so many nodes",
        "daemon_sets",
        "pod_start",
    ),
    (
        "wait_for_daemon_set_status",
        "daemon_set",
        "a daemon set that counts all its pods as scheduled and ready",
        "daemon_sets",
        "pod_start",
    ),
    (
        "wait_for_daemon_sets",
        "allowed_not_ready=0",
        "all daemon sets of a namespace, but for a few pods of each",
        "daemon_sets",
        "system_daemonset_startup",
    ),
    (
        "wait_for_controlled_pods",
        "controller",
        "a pod of any controller",
        "replication_controllers",
        "controlled_pods",
    ),
    (
        "wait_for_controlled_pods_running",
        "controller",
        "all pods of any controller in phase Running",
        "replication_controllers",
        "controlled_pods",
    ),
    (
        "wait_for_rc_pods_running",
        "rc, count",
        "a replication controller's exact number of pods in phase Running",
        "replication_controllers",
        "controlled_pods",
    ),
    (
        "wait_for_rc_to_stabilize",
        "rc",
        "a replication controller that counts as many pods as it is to have",
        "replication_controllers",
        "controlled_pods",
    ),
)
"""Rows of the catalogue."""

VERB_ROWS = (
    ("scale", "target, replicas", "what it has scaled", "scaling", "controlled_pods"),
    ("restart", "target", "what it has restarted", "restarting", "deployment"),
    (
        "rolling_update",
        "target, update_period=60.0, *, strict=False, within=None",
        "pods in the place of those it has deleted",
        "rolling_update",
        "rolling_update",
    ),
    (
        "delete_and_wait",
        "target, *, grace_period=None, propagation='Background'",
        "what it has deleted",
        "deletion",
        "pod_deletion",
    ),
    ("wait_for_gone", "resource, name, uid", "what is to go", "deletion", "pod_client_deletion"),
    ("wait_for_created", "made, condition=None", "what was created", "creation", "pod"),
)
"""Rows of the same shape of what does something first; no fixture and no marker is made of them."""
