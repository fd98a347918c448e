"""Nodes and their kubelets."""
