"""Kubernetes' common values: labels, fields, quantities, times, conditions, names, JSONPath.

Pure functions of plain dicts, strings and numbers, each written once for all layers above. No I/O,
no clock, no client and no verdicts.

Source: k8s.io/apimachinery (1.36).
"""
