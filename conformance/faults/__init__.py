"""Waits over a connection that fails in every way a network, a proxy or an API server can.

A TLS proxy in front of the suite's cluster injects the faults; what is awaited is
changed behind its back. Only what the product says and how often it asks is looked at.
"""
