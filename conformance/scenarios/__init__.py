"""Scenarios: lifecycles of workloads, recorded on a real cluster and played on any.

Contents: scenarios (`scripts/`), observations of a real cluster (`recordings/`), and the
modules that play, record and compare them.
"""
