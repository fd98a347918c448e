"""Waits on services: as objects, and whether they answer.

Admitted are waits on a Service itself; its EndpointSlices belong to `endpoints`.
"""
