"""Waits on pods: one pod, its containers, lists of pods, pods that answer.

Admitted are readers of a pod's fields, conditions on pods alone, and their waits. What needs a
pod's controller belongs to `workload` or to the controller's kind; what needs nodes, to `node`.
"""
