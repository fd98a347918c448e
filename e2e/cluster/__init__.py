"""Waits on the cluster itself: namespaces, events, permissions, API extensions."""
