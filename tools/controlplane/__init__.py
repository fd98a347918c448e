"""A real Kubernetes control plane for this repository's checks, built from pinned Go modules.

``python -m tools.controlplane --help`` from the root of the repository lists the commands. What may
enter this folder: building, starting, watching and stopping that cluster. It imports nothing of the
product.
"""
