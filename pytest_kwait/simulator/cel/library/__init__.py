"""Kubernetes' CEL function libraries, as k8s.io/apiserver's pkg/cel/library.

One module per library, with its overloads and their implementations; `declarations` joins them.
"""
