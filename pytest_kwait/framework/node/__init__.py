"""Waits on nodes: conditions and waits, and those that query kubelets."""
