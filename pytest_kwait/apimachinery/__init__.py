"""Kubernetes' common values: labels, quantities, times, conditions, names, formats, JSONPath.

Pure functions of plain dicts, strings and numbers, each defined once for all layers above, without
I/O and without a clock.

Source: k8s.io/apimachinery (1.36).
"""
