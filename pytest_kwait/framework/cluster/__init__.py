"""Waits on the cluster itself and its extensions.

Contents: namespaces, the API server and its extensions, authorization and autoscalers.
"""
