"""Suites that a user reads; they run on the embedded cluster and on a real one, unchanged.

What may enter: tests on the public API alone, quick on the embedded cluster, that start no run of
pytest. Others that need a cluster are in `conformance/`.
"""
