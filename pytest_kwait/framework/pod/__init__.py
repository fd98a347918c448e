"""Waits on pods: one pod, its containers, lists of pods, pods that answer.

This folder holds conditions on pods alone, and their waits. Waits that need a pod's controller
belong to `workload` or to the controller's kind; waits that need nodes belong to `node`.
"""
