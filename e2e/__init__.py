"""Suites that run on the embedded cluster and on a real one, unchanged."""
