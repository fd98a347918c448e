"""Artifacts of failed tests: folders, cluster dumps, journals of crashed workers.

Contents: code that writes evidence files. When they are written is decided in
`plugin.artifacts`.
"""
