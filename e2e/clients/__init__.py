"""Other Kubernetes clients, with equal results on every cluster.

Contents: one module for each client, which needs nothing of ours but a cluster and a
namespace. Where a client is not installed, its module is skipped (`pyproject.toml`, group `e2e`).
"""
