"""The types that the scheduling algorithm and its plugins work on.

They represent pods and nodes, and the API fields that affect scheduling, parsed from plain dicts.
Pure: no I/O, no clock, and no import of a plugin.

Source: kube-scheduler, pkg/scheduler/framework; component-helpers, scheduling/corev1.
"""
