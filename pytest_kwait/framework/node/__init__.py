"""Waits on nodes and on reports of kubelets.

This folder holds readers of a node's fields, conditions on nodes, and waits that query kubelets.
"""
