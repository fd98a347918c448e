"""Waits on the cluster itself and its extensions.

Admitted are waits on namespaces, the API server and its extensions, rights and autoscalers.
"""
