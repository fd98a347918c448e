"""Scenarios: lifecycles of workloads, recorded on a real cluster and played on any.

Contents: scenarios (`scripts/`), what was observed on a real cluster (`recordings/`), and the
modules that play, record and compare them.
"""
