"""The types that the scheduling algorithm and its plugins work on.

What may enter: pods and nodes as the algorithm reads them, and the API fields that decide where
a pod runs, parsed from plain dicts. Pure: no I/O and no clock. Nothing here imports a plugin.

Source: kube-scheduler, pkg/scheduler/framework; component-helpers, scheduling/corev1.
"""
