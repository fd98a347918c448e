"""Tests of pytest_kwait.suite.shards."""
