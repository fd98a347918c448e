"""Waits on the cluster itself: namespaces, events, rights, and what extends its API."""
