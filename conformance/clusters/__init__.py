"""Providers of clusters: envtest's binaries, kind and k3d, an API server alone, dead clusters.

Contents: tests that start clusters of their own.
"""
