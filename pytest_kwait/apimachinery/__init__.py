"""Labels, fields, quantities, durations, conditions and JSONPath: pure functions on the API's values.

What may enter: functions of plain dicts, strings and numbers that Kubernetes defines once for all
kinds, each written once and imported by every layer above. No I/O, no clock, no client and no
verdicts.

Source: k8s.io/apimachinery (1.36).
"""
