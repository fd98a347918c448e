"""Leader election among processes, for tests of failover.

Contents: candidates, their program, and the proxy that cuts them off from the server.
"""
