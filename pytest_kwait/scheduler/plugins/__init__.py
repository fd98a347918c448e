"""Predicates and priorities: filter the nodes for a pod, and score them.

They are pure functions of a `CycleState` and nodes, named after upstream's plugins, with a
registry.

Source: kube-scheduler, pkg/scheduler/framework/plugins.
"""
