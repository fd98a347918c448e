"""The waits on StatefulSets, DaemonSets and ReplicationControllers, as rows of the catalogue.

A row is name, arguments after client and namespace, summary, module, limit. The condition is made
by the function of the same module that has the wait's name without `wait_for_`.
"""

from __future__ import annotations

__all__ = ["SET_WAITS"]

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
)
"""Rows of the catalogue."""
