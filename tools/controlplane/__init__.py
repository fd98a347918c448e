"""A real Kubernetes for our own checks: built from pinned Go modules, started and stopped here.

``python -m tools.controlplane --help`` from the root of the repository tells the rest. What may enter
this folder: what builds, starts, watches and ends that cluster. It imports nothing of the product.
"""
