"""Suites that hold the embedded cluster to a real one.

Contents: recordings of a real cluster (transcripts, kubectl scripts, scenarios), the
players and recorders, and comparisons with upstream's programs. All of it runs on any cluster, as
`e2e/` does: `pytest conformance`.
"""
