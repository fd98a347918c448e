"""Waits on nodes and on what kubelets report.

Admitted are readers of a node's fields, conditions on nodes, and waits that ask kubelets.
"""
