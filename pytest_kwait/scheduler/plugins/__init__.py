"""Predicates and priorities: which nodes a pod fits, and how well.

What may enter: pure functions of a `CycleState` and nodes, named after upstream's plugins, and
their registry. Nothing here selects a node or talks to a server.

Source: kube-scheduler, pkg/scheduler/framework/plugins.
"""
