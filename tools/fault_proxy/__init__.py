"""A TLS proxy that injects faults between a client and an API server.

Contents: the proxy, its faults, and the requests and responses that they change.
"""
