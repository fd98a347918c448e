"""Waits on services: the Service object, and answers over HTTP.

Contents: waits on a Service itself; its EndpointSlices belong to `endpoints`.
"""
