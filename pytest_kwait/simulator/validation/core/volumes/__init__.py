"""Validation of volumes: those of pods, persistent volumes and claims.

Contents: volume sources, persistent volumes, claims, and the `volumes` of a pod spec.
"""
