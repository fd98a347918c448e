"""The container runtime of a node, as upstream's `kuberuntime`.

What may enter: instances of containers, their logs, starts, ends and restarts.
"""
