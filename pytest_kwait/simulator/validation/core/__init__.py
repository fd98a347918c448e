"""Validation of the core API group.

Contents: one module per kind or family of kinds, and what pods and volumes share (resources,
scheduling). `pods` and `volumes` import from here, and `pods` from `volumes`; never the other way.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go.
"""
