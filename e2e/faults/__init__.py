"""Waits over a connection that fails in every way a network, a proxy or an API server can.

A TLS proxy stands before the cluster that the suite runs on and does the harm; what is awaited is
changed behind its back. Only what the product says and how often it asks is looked at.
"""
