"""Artifacts of failed tests: folders, dumps of namespaces and clusters, journals of crashed
workers.

May enter: code that writes evidence files. When they are written is decided in
`plugin.artifacts`.
"""
